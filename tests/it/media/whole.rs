//! Media with every fault there is: put in, and checked at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;

use twitter_updater::base::clock::wall_ms;
use twitter_updater::engine::queue::{NewJob, Queue};
use twitter_updater::model::media::{MediaKind, MediaState, Medium};
use twitter_updater::pipelines::media::schedule::fresh_lane;
use twitter_updater::store::{MediumSighting, NewItem, Store, Way};

use super::fetch::sha256;
use super::server::{Server, content};
use crate::support::process::Variables;

/// The pipeline.
pub const NS: &str = "media:twitter";

/// The fault of a number, and the state in which its medium ends.
pub fn fault(number: u32) -> (&'static str, MediaState) {
    match number % 20 {
        0 => ("slow", MediaState::Stored),
        1 | 2 => ("cut", MediaState::Stored),
        3 => ("whole", MediaState::Stored),
        4 => ("liar", MediaState::Stored),
        5 => ("changed", MediaState::Stored),
        6 => ("moved", MediaState::Stored),
        7 => ("gone", MediaState::Gone),
        8 => ("page", MediaState::Refused),
        9 => (["large", "endless"][number as usize / 20 % 2], MediaState::Refused),
        10 => ("inside", MediaState::Refused),
        11 => ("metadata", MediaState::Refused),
        12 if number % 200 == 12 => ("storm", MediaState::Stored),
        13 => ("shifted", MediaState::Stored),
        _ => ("ok", MediaState::Stored),
    }
}

/// The media as posts bring them: recorded, and in the queue.
pub async fn put_in(store: &dyn Store, queue: &dyn Queue, server: &Server, numbers: impl IntoIterator<Item = u32>) {
    let now = wall_ms();
    for chunk in numbers.into_iter().collect::<Vec<_>>().chunks(1_000) {
        let ids: Vec<String> = chunk.iter().map(u32::to_string).collect();
        let new = |id: &String| NewItem {
            id: id.clone(),
            created_at: None,
            next_due: Some(now),
            content: None,
            read_at: None,
        };
        store.record(NS, now, &Way::new("fan_out"), &ids.iter().map(new).collect::<Vec<_>>()).await.unwrap();
        let seen = |number: &u32| {
            let url = server.url(&format!("/{}/{number}", fault(*number).0));
            let medium = Medium { id: number.to_string(), url, kind: MediaKind::Photo };
            MediumSighting { medium, author: None, post: "1".to_owned(), at: now }
        };
        store.record_media(NS, &chunk.iter().map(seen).collect::<Vec<_>>()).await.unwrap();
        let jobs: Vec<NewJob> = ids.into_iter().map(|id| NewJob { id, lane: fresh_lane(), due: 0.into() }).collect();
        queue.schedule(&jobs).await.unwrap();
    }
}

/// Where files are kept.
pub enum Kept {
    Folder,
    #[cfg(feature = "s3")]
    Bucket(super::bucket::S3),
}

impl Kept {
    /// In a bucket whose server has faults; in a folder where the program knows no buckets.
    pub async fn start() -> Self {
        #[cfg(feature = "s3")]
        return Self::Bucket(super::bucket::S3::start(true).await);
        #[cfg(not(feature = "s3"))]
        return Self::Folder;
    }

    pub fn settings(&self) -> Variables {
        match self {
            Self::Folder => Variables::new(),
            #[cfg(feature = "s3")]
            Self::Bucket(server) => server.settings(),
        }
    }

    /// The hashes of all files; none is on its way in the folder.
    pub fn files(&self, folder: &Path) -> BTreeSet<String> {
        let found = files_in(folder);
        match self {
            Self::Folder => found,
            #[cfg(feature = "s3")]
            Self::Bucket(server) => {
                assert!(found.is_empty(), "{found:?}");
                println!("{} replies of the bucket were lost", server.lost());
                server.files()
            }
        }
    }
}

/// The hashes of the files in a folder; each has the bytes that its name says, and none is on its way.
pub fn files_in(folder: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for of in std::fs::read_dir(folder).unwrap().map(|of| of.unwrap()) {
        let first = of.file_name().into_string().unwrap();
        for file in std::fs::read_dir(of.path()).unwrap().map(|file| file.unwrap()) {
            let name = format!("{first}{}", file.file_name().into_string().unwrap());
            assert!(first != "parts", "a part is left: {name}");
            assert_eq!(sha256(&std::fs::read(file.path()).unwrap()), name);
            found.insert(name);
        }
    }
    found
}

/// Each medium is in its state, and the files that were found are those of the stored ones, each once, and no other.
pub async fn check(store: &dyn Store, found: &BTreeSet<String>, numbers: Range<u32>) {
    let ids: Vec<String> = numbers.clone().map(|number| number.to_string()).collect();
    let media = store.media(NS, &ids).await.unwrap();
    let mut expected = BTreeMap::new();
    for (number, medium) in numbers.zip(media) {
        let medium = medium.unwrap();
        assert_eq!(medium.state, fault(number).1, "{medium:?}");
        if medium.state == MediaState::Stored {
            let file = content(number);
            let hash = sha256(&file);
            assert_eq!(medium.sha256.as_deref(), Some(&*hash), "{medium:?}");
            expected.insert(hash, file.len() as i64);
        }
    }
    assert!(found.iter().eq(expected.keys()), "{} files, {} expected", found.len(), expected.len());
    assert_eq!(store.media_bytes().await.unwrap(), expected.values().sum::<i64>());
}
