//! Storage in a bucket of S3 or of a compatible server. A file exists whole or not at all: the last request joins the pieces of a large
//! one. Each request may be repeated.

use std::io;
use std::path::Path as FilePath;
use std::time::Duration;

use async_trait::async_trait;
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, ClientOptions, MultipartUpload, ObjectStore, ObjectStoreExt, PutMultipartOptions,
    PutOptions, RetryConfig,
};
use tokio::fs::File;
use tokio::io::AsyncReadExt;

use super::files::{CompleteFile, FileStorage, relative_path};
use super::partial_files::LockedPart;
use super::unusable_storage::UnusableStorage;
use crate::config::BucketSettings;

/// Bytes of a piece. S3 takes no smaller ones, except the last. A process holds one piece per upload in memory.
const PIECE_BYTES: usize = 5 * 1_024 * 1_024;
/// Immediate retries of a request; then the pipeline pauses.
const RETRIES: usize = 2;

/// The settings of the bucket are invalid.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadBucket(String);

#[derive(Debug)]
pub struct Bucket {
    bucket: AmazonS3,
    prefix: String,
}

impl Bucket {
    /// `timeout`: time limit of a request.
    pub fn new(settings: &BucketSettings, timeout: Duration) -> Result<Self, BadBucket> {
        // As in `providers::http`: the first caller has installed the same provider.
        drop(rustls::crypto::ring::default_provider().install_default());
        let is_plain = settings.endpoint.starts_with("http:");
        let client = ClientOptions::new().with_timeout(timeout).with_connect_timeout(timeout).with_allow_http(is_plain);
        let retry = RetryConfig { max_retries: RETRIES, retry_timeout: 2 * timeout, ..RetryConfig::default() };
        let mut builder = AmazonS3Builder::from_env().with_bucket_name(&settings.bucket);
        // Not every compatible server removes several objects at once.
        builder = builder.with_disable_bulk_delete(true);
        builder = builder.with_client_options(client).with_retry(retry);
        if !settings.endpoint.is_empty() {
            builder = builder.with_endpoint(&settings.endpoint);
        }
        match &*settings.region {
            "" if builder.get_config_value(&AmazonS3ConfigKey::Region).is_some() => {}
            "" => builder = builder.with_region("us-east-1"),
            region => builder = builder.with_region(region),
        }
        if let Some((access_key, secret_key)) = &settings.keys {
            use secrecy::ExposeSecret;
            builder = builder.with_access_key_id(access_key.expose_secret());
            builder = builder.with_secret_access_key(secret_key.expose_secret());
        }
        let bucket = builder.build().map_err(|error| BadBucket(short_message(&error)))?;
        Ok(Self { bucket, prefix: settings.prefix.clone() })
    }

    fn path(&self, sha256: &str) -> Path {
        match &*self.prefix {
            "" => Path::from(relative_path(sha256)),
            prefix => Path::from(format!("{prefix}/{}", relative_path(sha256))),
        }
    }

    async fn contains(&self, file: &CompleteFile) -> Result<bool, object_store::Error> {
        match self.bucket.head(&self.path(&file.sha256)).await {
            Ok(there) => Ok(there.size == file.bytes),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn upload(&self, from: &FilePath, file: &CompleteFile) -> Result<(), UnusableStorage> {
        let mut from = File::open(from).await?;
        let attributes = Attributes::from_iter([(Attribute::ContentType, file.kind)]);
        let (path, mut first) = (self.path(&file.sha256), read_piece(&mut from).await?);
        if first.len() as u64 == file.bytes {
            let options = PutOptions { attributes, ..PutOptions::default() };
            self.bucket.put_opts(&path, first.into(), options).await?;
            return Ok(());
        }
        let options = PutMultipartOptions { attributes, ..PutMultipartOptions::default() };
        let mut upload = self.bucket.put_multipart_opts(&path, options).await?;
        let sent = async {
            while !first.is_empty() {
                let next = read_piece(&mut from).await?;
                let this = std::mem::replace(&mut first, next);
                upload.put_part(this.into()).await?;
            }
            // If the reply is lost here, the second request fails, because the upload is complete.
            match upload.complete().await {
                Ok(_) => Ok(()),
                Err(_) if self.contains(file).await.unwrap_or(false) => Ok(()),
                Err(error) => Err(error.into()),
            }
        };
        let sent = sent.await;
        if sent.is_err() {
            // A rule of the bucket removes the pieces of a process that died, or of a bucket that was down.
            let _ = upload.abort().await;
        }
        sent
    }
}

#[async_trait]
impl FileStorage for Bucket {
    async fn store(&self, part: LockedPart, file: &CompleteFile) -> Result<bool, UnusableStorage> {
        let is_new = !self.contains(file).await?;
        if is_new {
            self.upload(&part.path, file).await?;
        }
        part.discard();
        Ok(is_new)
    }

    async fn remove(&self, sha256: &str) -> Result<(), UnusableStorage> {
        match self.bucket.delete(&self.path(sha256)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Empty at the end of the file.
async fn read_piece(from: &mut File) -> io::Result<Vec<u8>> {
    let mut piece = Vec::new();
    from.take(PIECE_BYTES as u64).read_to_end(&mut piece).await?;
    Ok(piece)
}

impl From<object_store::Error> for UnusableStorage {
    fn from(error: object_store::Error) -> Self {
        use object_store::Error::{NotFound, PermissionDenied, Unauthenticated};
        let fix = match error {
            NotFound { .. } => "create the bucket, or check media.store",
            PermissionDenied { .. } | Unauthenticated { .. } => "check the keys in media.s3 and what they may do",
            _ => "check media.store and media.s3",
        };
        Self::Bucket { error: short_message(&error), fix }
    }
}

/// The error in one line, without the page from the server: it repeats the key and the signed text.
fn short_message(error: &object_store::Error) -> String {
    let text = error.to_string();
    let line = text.split(['<', '\n']).next().unwrap_or_default().trim_end_matches([' ', ':', '-']);
    line.chars().take(300).collect()
}
