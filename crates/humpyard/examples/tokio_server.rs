//! A server on tokio that shares its time among tenants: `gr3` chooses the next request, by weights of 5, 3 and 1.
//!
//! The task of a connection reads requests and queues them. One task, the executor, serves them one after the other. It
//! begins when all requests have come, so that each run of this example gives the same result; a server would not wait.
#![expect(clippy::print_stdout, reason = "an example shows what it found")]

use std::collections::HashMap;
use std::error::Error;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use humpyard::config::SchedulerConfig;
use humpyard::id::{ClientId, CoreId, Slot};
use humpyard::mechanism::Arrival;
use humpyard::packet::Packet;
use humpyard::policies::spec::{AnyScheduler, PolicySpec};
use humpyard::unit::{Time, Weight};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};

const WEIGHTS: [u32; 3] = [5, 3, 1];
/// Requests of each tenant.
const REQUESTS: u32 = 60;
/// Replies in which the shares are counted: until then every tenant has requests waiting.
const COUNTED: usize = 54;

/// A waiting request: its number, and the channel for its reply.
struct Request {
    number: u32,
    reply: mpsc::UnboundedSender<u32>,
}

struct Queue {
    scheduler: AnyScheduler,
    requests: HashMap<Slot, Request>,
}

struct Server {
    queue: Mutex<Queue>,
    came: Notify,
    began: Instant,
}

impl Server {
    fn now(&self) -> Time {
        Time::from_ns(self.began.elapsed().as_nanos() as u64)
    }

    /// Reads the requests of a connection: first the tenant, a byte, then numbers of four bytes. Writes the replies.
    async fn connection(self: Arc<Self>, mut stream: TcpStream) -> io::Result<()> {
        let tenant = stream.read_u8().await?;
        if usize::from(tenant) >= WEIGHTS.len() {
            return Err(io::Error::other(format!("there is no tenant {tenant}")));
        }
        let (mut reader, mut writer) = stream.into_split();
        let (reply, mut replies) = mpsc::unbounded_channel();
        let writes = tokio::spawn(async move {
            while let Some(number) = replies.recv().await {
                writer.write_u32(number).await?;
            }
            Ok::<(), io::Error>(())
        });
        while let Ok(number) = reader.read_u32().await {
            let packet = Packet { client: ClientId(tenant.into()), length: 1000, ..Packet::default() };
            let Queue { scheduler, requests } = &mut *self.queue.lock().expect("no task panicked");
            match scheduler.on_arrival(self.now(), &packet) {
                Arrival::Queued(slot) => drop(requests.insert(slot, Request { number, reply: reply.clone() })),
                // A server would reply that it is busy.
                Arrival::Dropped(reason) => return Err(io::Error::other(format!("request {number}: {reason:?}"))),
            }
            self.came.notify_one();
        }
        drop(reply);
        writes.await?
    }

    /// Serves all requests. Returns their tenants in the order of service.
    async fn execute(&self) -> Vec<usize> {
        let all = WEIGHTS.len() * REQUESTS as usize;
        while self.queue.lock().expect("no task panicked").requests.len() < all {
            self.came.notified().await;
        }
        let mut served = Vec::new();
        while served.len() < all {
            let start = self.now();
            let (dispatch, request) = {
                let Queue { scheduler, requests } = &mut *self.queue.lock().expect("no task panicked");
                let dispatch = scheduler.next(start, CoreId(0)).expect("requests are waiting");
                (dispatch, requests.remove(&dispatch.slot).expect("a request of ours"))
            };
            tokio::task::yield_now().await; // Your work would stand here.
            // If the client has gone, its reply is dropped.
            let _ = request.reply.send(request.number);
            served.push(dispatch.packet.client.0 as usize);
            let now = self.now();
            let mut queue = self.queue.lock().expect("no task panicked");
            queue.scheduler.on_completion(now, dispatch.slot, now.since(start));
        }
        served
    }
}

/// Sends all requests of a tenant, then checks that their replies come in order.
async fn client(address: std::net::SocketAddr, tenant: usize) -> io::Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_u8(tenant as u8).await?;
    for number in 0..REQUESTS {
        stream.write_u32(number).await?;
    }
    for number in 0..REQUESTS {
        assert_eq!(stream.read_u32().await?, number, "replies to a tenant keep the order of its requests");
    }
    Ok(())
}

async fn serve() -> Result<[usize; 3], Box<dyn Error>> {
    let weights = WEIGHTS.map(|weight| Weight::new(weight).expect("positive"));
    let config = SchedulerConfig::new(1).with_clients(weights.to_vec());
    let queue = Queue { scheduler: "gr3".parse::<PolicySpec>()?.build(&config)?, requests: HashMap::new() };
    let server = Arc::new(Server { queue: Mutex::new(queue), came: Notify::new(), began: Instant::now() });
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    let clients: Vec<_> = (0..WEIGHTS.len()).map(|tenant| tokio::spawn(client(address, tenant))).collect();
    let mut connections = Vec::new();
    for _ in 0..WEIGHTS.len() {
        connections.push(tokio::spawn(Arc::clone(&server).connection(listener.accept().await?.0)));
    }
    let served = server.execute().await;
    for task in clients.into_iter().chain(connections) {
        task.await??;
    }
    let mut counts = [0; 3];
    served[..COUNTED].iter().for_each(|&tenant| counts[tenant] += 1);
    Ok(counts)
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let counts = tokio::runtime::Builder::new_current_thread().enable_io().build()?.block_on(serve())?;
    println!("{counts:?} of the first {COUNTED} requests, at weights {WEIGHTS:?}");
    assert!((0..3).all(|i| counts[i].abs_diff([30, 18, 6][i]) < 5), "not shared by weight");
    Ok(())
}
