use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::NamedTempFile;

use engine::base::private_file::{self, parent_folder};

/// Output file that gets its name only when it is complete.
pub(super) struct NewFile {
    name: PathBuf,
    to: To,
}

enum To {
    /// Written next to the file, then renamed.
    Beside(PathBuf),
    /// A pipe or a device: written directly, since a file must not replace it.
    There(File),
}

impl NewFile {
    pub fn begin(name: &Path) -> Result<Self> {
        private_file::check_planted(name).with_context(|| cannot(name))?;
        // A link stays: the file behind it is replaced.
        let end = fs::canonicalize(name).unwrap_or_else(|_| name.to_owned());
        let to = if fs::metadata(&end).is_ok_and(|there| !there.is_file()) {
            File::options().write(true).open(&end).map(To::There)
        } else {
            // Has no name, so an interrupted command leaves nothing behind.
            tempfile::tempfile_in(parent_folder(&end)).map(|_| To::Beside(end))
        };
        let to = to.with_context(|| cannot(name))?;
        Ok(Self { name: name.to_owned(), to })
    }

    /// Writes the whole text. After a failure the previous file is unchanged, unless it is a pipe or a device.
    pub fn write(self, text: &str) -> Result<()> {
        let written = match self.to {
            To::There(mut file) => file.write_all(text.as_bytes()),
            To::Beside(end) => NamedTempFile::new_in(parent_folder(&end)).and_then(|mut file| {
                file.write_all(text.as_bytes())?;
                file.as_file().sync_all()?;
                file.persist(end)?;
                Ok(())
            }),
        };
        written.with_context(|| cannot(&self.name))
    }
}

fn cannot(name: &Path) -> String {
    format!("{} cannot be written", name.display())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_link_is_followed_and_a_device_stays_one() {
        let folder = tempfile::tempdir().unwrap();
        let [file, link] = ["file", "link"].map(|name| folder.path().join(name));
        fs::write(&file, "before").unwrap();
        symlink("file", &link).unwrap();
        NewFile::begin(&link).unwrap().write("after").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "after");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        let null = Path::new("/dev/null");
        NewFile::begin(null).unwrap().write("nothing").unwrap();
        assert!(!fs::metadata(null).unwrap().is_file());
        for nowhere in [folder.path().to_owned(), folder.path().join("none/file")] {
            assert!(NewFile::begin(&nowhere).is_err(), "{}", nowhere.display());
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
