//! A process without a descriptor left: alone in its binary, since the limit is the process's.

mod common;

use acb_live::{ConnectFault, Ending};
use common::{Bytewise, ONE_TOKEN, Then, call, client, stream};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

#[tokio::test]
async fn too_many_open_files_are_named_with_their_remedy() {
    let server = Bytewise::start(|_| stream(ONE_TOKEN), Then::Stay).await;
    let client = client(&server.url());
    let before = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(3), ..before }).expect("a lower limit");
    let seen = client.exchange(call()).await;
    setrlimit(Resource::Nofile, before).expect("the limit as it was");
    let Ending::ConnectError { fault, message } = &seen.ending else { panic!("{:?}", seen.ending) };
    assert_eq!(*fault, ConnectFault::TooManyFiles);
    assert!(message.contains("ulimit -n"), "{message}");
    assert_eq!(client.exchange(call()).await.ending, Ending::Ok, "the client is not broken by it");
}
