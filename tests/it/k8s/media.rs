//! The volume of media: the folder is on it, and the files have room.

use serde_json::Value;
use twitter_updater::config::Settings;

use super::{Kustomization, documents, list, path, text};

/// Bytes, of a number of Gi.
fn bytes(quantity: &str) -> u64 {
    quantity.strip_suffix("Gi").unwrap().parse::<u64>().unwrap() << 30
}

#[test]
fn the_folder_of_media_is_on_a_volume_with_room_that_all_updaters_share() {
    let component = Kustomization::of("components/media");
    let base = Kustomization::of("base");
    let files: Vec<&str> = base.settings.values().chain(component.settings.values()).map(String::as_str).collect();
    let media = Settings::load_with(&files, None, &[]).unwrap().media;
    assert!(media.collect);

    let [patch] = documents(&path("k8s/components/media/updater.yaml")).try_into().unwrap();
    let (pod, name) = (&patch["spec"]["template"], text(&patch, "/metadata/name"));
    let [container] = &list(pod, "/spec/containers").collect::<Vec<_>>()[..] else { panic!("{patch}") };
    // A strategic merge finds both by their names: with another one it would add a container.
    let is_there = |(owner, _, of): (&str, &Value, &Value)| owner == name && of["name"] == container["name"];
    assert!(base.ours().any(is_there), "{patch}");
    let [mount] = &list(container, "/volumeMounts").collect::<Vec<_>>()[..] else { panic!("{patch}") };
    assert!(media.folder.starts_with(text(mount, "/mountPath")), "{:?}", media.folder);
    let volume = list(pod, "/spec/volumes").find(|volume| volume["name"] == mount["name"]).unwrap();

    let claim = component.of_kind("PersistentVolumeClaim").next().unwrap();
    assert_eq!(text(claim, "/metadata/name"), text(volume, "/persistentVolumeClaim/claimName"));
    let (_, owner, _) = base.ours().find(|(owner, ..)| *owner == name).unwrap();
    let group = |of: &str| owner.pointer(&format!("/spec/securityContext/{of}")).and_then(Value::as_u64).unwrap();
    assert_eq!(group("fsGroup"), group("runAsGroup"), "the process could not write into it");
    assert_eq!(list(claim, "/spec/accessModes").collect::<Vec<_>>(), ["ReadWriteMany"]);
    let room = bytes(text(claim, "/spec/resources/requests/storage"));
    assert!(media.max_disk_bytes > 0 && media.max_disk_bytes < room / 10 * 9, "{} of {room}", media.max_disk_bytes);
}
