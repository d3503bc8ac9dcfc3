//! Unchanged redis-rs against real servers: what every application gets through it is in
//! `contract`, what the synchronous and the tokio interface offer of their own beside it.

mod asynchronous;
mod contract;
mod servers;
mod synchronous;

use redis::{Client, ConnectionAddr, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo, TlsCertificates};
use servers::Endpoint;

/// Opens a client; it connects later.
pub fn client(at: &Endpoint, protocol: ProtocolVersion) -> Client {
    let (host, port) = at.address.rsplit_once(':').expect("host:port");
    let port = port.parse().expect("a port");
    let address = match at.authority {
        Some(_) => ConnectionAddr::TcpTls { host: host.to_owned(), port, insecure: false, tls_params: None },
        None => ConnectionAddr::Tcp(host.to_owned(), port),
    };
    let mut settings = RedisConnectionInfo::default().set_protocol(protocol);
    if let Some(password) = &at.password {
        settings = settings.set_password(password);
    }
    let info = address.into_connection_info().expect("an address").set_redis_settings(settings);
    match &at.authority {
        Some(authority) => {
            choose_cryptography();
            let certificates = TlsCertificates { client_tls: None, root_cert: Some(authority.clone()) };
            Client::build_with_tls(info, certificates).expect("certificates")
        }
        None => Client::open(info).expect("an address"),
    }
}

/// rustls asks the application to choose its cryptography.
pub fn choose_cryptography() {
    // Another test may have chosen already.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

pub const PROTOCOLS: [ProtocolVersion; 2] = [ProtocolVersion::RESP2, ProtocolVersion::RESP3];
