//! What lies between a process and a service: latency, lost requests, lost replies, outages.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Where chance comes from in a simulation.
#[derive(Debug, Clone)]
pub struct Dice(Arc<Mutex<StdRng>>);

impl Dice {
    pub fn of(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(StdRng::seed_from_u64(seed))))
    }

    /// Whether something of these odds happens.
    pub fn odds(&self, odds: f64) -> bool {
        odds > 0.0 && self.0.lock().unwrap().random_bool(odds.min(1.0))
    }

    /// A number from `from` to below `to`.
    pub fn between(&self, from: u64, to: u64) -> u64 {
        self.0.lock().unwrap().random_range(from..to)
    }

    pub fn pick<'a, T>(&self, of: &'a [T]) -> &'a T {
        &of[self.between(0, of.len() as u64) as usize]
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Service {
    Queue,
    Store,
    Ledger,
    Api,
}

pub const SERVICES: [Service; 4] = [Service::Queue, Service::Store, Service::Ledger, Service::Api];

/// What goes wrong on the way to a service, as shares of its calls.
#[derive(Debug, Clone, Copy, Default)]
pub struct Weather {
    /// It answers nothing and takes nothing.
    pub down: bool,
    /// The request never arrives.
    pub request_lost: f64,
    /// It is done, and the reply is lost.
    pub reply_lost: f64,
    /// It takes up to [`Weather::slowest`], there or back.
    pub slow: f64,
    pub slowest: Duration,
}

/// Why a call has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    Refused,
    BrokeOff,
    TimedOut,
}

#[derive(Debug)]
pub struct Network {
    dice: Dice,
    weather: Mutex<BTreeMap<Service, Weather>>,
}

impl Network {
    pub fn new(dice: Dice) -> Arc<Self> {
        Arc::new(Self { dice, weather: Mutex::default() })
    }

    pub fn set(&self, service: Service, weather: Weather) {
        self.weather.lock().unwrap().insert(service, weather);
    }

    pub fn weather(&self, service: Service) -> Weather {
        self.weather.lock().unwrap().get(&service).copied().unwrap_or_default()
    }

    pub fn clear_up(&self) {
        self.weather.lock().unwrap().clear();
    }

    fn latency(&self, weather: &Weather) -> Duration {
        if self.dice.odds(weather.slow) {
            return Duration::from_millis(self.dice.between(5, weather.slowest.as_millis() as u64 + 6));
        }
        Duration::from_millis(self.dice.between(0, 4))
    }
}

/// One process's way to the services. A process can be frozen, as a virtual machine is: nothing of what
/// it waits for reaches it meanwhile.
#[derive(Debug)]
pub struct Way {
    pub process: usize,
    network: Arc<Network>,
    frozen_until: Mutex<Option<Instant>>,
}

impl Way {
    pub fn new(process: usize, network: Arc<Network>) -> Arc<Self> {
        Arc::new(Self { process, network, frozen_until: Mutex::new(None) })
    }

    pub fn freeze(&self, span: Duration) {
        *self.frozen_until.lock().unwrap() = Some(Instant::now() + span);
    }

    async fn thawed(&self) {
        loop {
            let until = *self.frozen_until.lock().unwrap();
            match until {
                Some(until) if until > Instant::now() => tokio::time::sleep_until(until).await,
                _ => return,
            }
        }
    }

    /// Has `effect` done by a service. A request that is on its way arrives whether or not its sender
    /// still waits for it, or lives.
    pub async fn call<T: Send + 'static>(
        &self,
        to: Service,
        timeout: Duration,
        effect: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Lost> {
        self.thawed().await;
        let weather = self.network.weather(to);
        if weather.down {
            return Err(Lost::Refused);
        }
        let (there, back) = (self.network.latency(&weather), self.network.latency(&weather));
        let request_lost = self.network.dice.odds(weather.request_lost);
        let reply_lost = self.network.dice.odds(weather.reply_lost);
        let (reply, answer) = oneshot::channel();
        let network = self.network.clone();
        tokio::spawn(async move {
            tokio::time::sleep(there).await;
            if request_lost || network.weather(to).down {
                return;
            }
            let done = effect.await;
            tokio::time::sleep(back).await;
            if !reply_lost {
                let _ = reply.send(done); // its sender may have gone
            }
        });
        let answer = tokio::time::timeout(timeout, answer).await;
        self.thawed().await;
        match answer {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(_)) => Err(Lost::BrokeOff),
            Err(_) => Err(Lost::TimedOut),
        }
    }
}
