//! docs/data.md names what `export` writes, and its questions can be asked.

use std::collections::BTreeMap;

use sqlx::{Connection, SqliteConnection};
use twitter_updater::model::provider::Provider;
use twitter_updater::pipelines::posts::posts_pipeline;
use twitter_updater::store::{Lifecycle, SqliteStore, export};

use super::{read, table};

#[test]
fn each_table_and_column_is_described() {
    let page = read("docs/data.md");
    let described: BTreeMap<&str, Vec<(String, String)>> = page
        .split("\n### `")
        .skip(1)
        .map(|part| {
            let (name, rest) = part.split_once('`').unwrap();
            let cell = |text: &str| text.replace('`', "");
            let rows = table(rest, "").iter().map(|row| (cell(row[0]), cell(row[1]))).collect();
            (name, rows)
        })
        .collect();
    let posts = posts_pipeline(&Provider::Twitter);
    let all = || posts.tables().chain(export::ACCOUNTS).chain(export::EDGES).chain(export::COMMUNITIES);
    let there: BTreeMap<&str, Vec<(String, String)>> = all()
        .map(|table| {
            let columns = table.columns.iter();
            (table.name, columns.map(|column| (column.name.to_owned(), column.about.replace('`', ""))).collect())
        })
        .collect();
    assert_eq!(described, there);
    for table in all() {
        let about: String = table.about.chars().skip(1).collect();
        assert!(page.contains(&format!("{about}.")), "{}: {}", table.name, table.about);
    }
}

#[tokio::test]
async fn the_questions_can_be_asked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tweets.db");
    SqliteStore::open(&path, std::time::Duration::from_secs(20)).await.unwrap().migrate().await.unwrap();
    let mut file = SqliteConnection::connect(&format!("sqlite://{}", path.display())).await.unwrap();
    let page = read("docs/data.md");
    let questions = page.split_once("```sql\n").unwrap().1.split_once("```").unwrap().0;
    let mut asked = 0;
    for question in questions.split(";\n").map(str::trim).filter(|question| !question.is_empty()) {
        let answer = sqlx::query(sqlx::AssertSqlSafe(question)).fetch_all(&mut file).await;
        assert!(answer.is_ok(), "{question}: {answer:?}");
        asked += 1;
    }
    assert_eq!(asked, 10);
}
