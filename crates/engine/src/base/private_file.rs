//! Files in folders where other users may write. A link or a file that another user has planted there is rejected.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;

/// Permissions of users who are neither the owner nor in its group.
const OTHERS: u32 = 0o007;
const OTHERS_WRITE: u32 = 0o022;
/// Other processes may remove a file between two steps here: then it is created again.
const ATTEMPTS: usize = 8;
/// Largest number of links that Linux follows.
const MOST_LINKS: usize = 40;

/// Opens a file to read and write; creates it with access for its owner only if it is missing.
///
/// # Errors
/// The disk's error; or the name belongs to anything but a plain file of this user with one name and no access for others.
pub fn open(path: &Path) -> io::Result<File> {
    for _ in 0..ATTEMPTS {
        match create(path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            created => return created,
        }
        match open_existing(path, File::options().read(true).write(true)) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            opened => return opened,
        }
    }
    Err(io::Error::new(ErrorKind::WouldBlock, "other processes create and remove it all the time"))
}

/// Creates a file with access for its owner only. An existing name is an error, also if it is a link.
pub fn create(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).create_new(true).mode(0o600).open(path)
}

/// Reads a file, with the checks of [`open`].
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_existing(path, File::options().read(true))?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => create(path)?.write_all(bytes),
    }
}

pub fn check_name(path: &Path, file: &File) -> io::Result<()> {
    let (now, ours) = (fs::symlink_metadata(path)?, file.metadata()?);
    if (now.dev(), now.ino()) == (ours.dev(), ours.ino()) {
        Ok(())
    } else {
        Err(planted_error("it was replaced while it was written"))
    }
}

/// Checks that no other user has planted this name: a link in a folder where others may write, or a file where all may write.
pub fn check_planted(path: &Path) -> io::Result<()> {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        let Ok(there) = fs::symlink_metadata(&path) else { return Ok(()) };
        let folder = parent_folder(&path);
        let around = fs::metadata(folder)?;
        let is_foreign = ![0, around.uid(), rustix::process::geteuid().as_raw()].contains(&there.uid());
        let writers = around.mode() & OTHERS_WRITE;
        if !there.is_symlink() {
            return if is_foreign && writers & OTHERS != 0 { Err(planted_error(FOREIGN)) } else { Ok(()) };
        }
        if is_foreign && writers != 0 {
            return Err(planted_error("it is a link of another user"));
        }
        path = folder.join(fs::read_link(&path)?);
    }
    Ok(())
}

#[must_use]
pub fn parent_folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[must_use]
pub fn with_suffix(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

const FOREIGN: &str = "it belongs to another user";

fn open_existing(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    // NONBLOCK: opening a named pipe would wait until another process opens its other end.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = match options.custom_flags(flags.bits().cast_signed()).open(path) {
        Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
            return Err(planted_error("it is a link"));
        }
        opened => opened?,
    };
    let there = file.metadata()?;
    if !there.is_file() {
        return Err(planted_error("it is no plain file"));
    }
    if there.nlink() > 1 {
        return Err(planted_error("it has a second name"));
    }
    // A network file system may give every file another owner and mode. Then it does so for a new file, too.
    let is_ours = there.uid() == rustix::process::geteuid().as_raw();
    if !is_ours || there.mode() & OTHERS != 0 {
        let new = tempfile::tempfile_in(parent_folder(path))?.metadata()?;
        if !is_ours && there.uid() != new.uid() {
            return Err(planted_error(FOREIGN));
        }
        if there.mode() & OTHERS & !new.mode() != 0 {
            return Err(planted_error("all users may read or write it"));
        }
    }
    if there.mode() & 0o070 != 0 {
        // Kubernetes gives the files of a volume to a group, at each start of a pod.
        let _ = file.set_permissions(fs::Permissions::from_mode(0o600));
    }
    Ok(file)
}

fn planted_error(why: &str) -> io::Error {
    let remedy = "another user may have put it there: delete it, or choose a folder where only you may write";
    io::Error::new(ErrorKind::PermissionDenied, format!("{why}; {remedy}"))
}
