// Package web is the HTTP front of the server. Applications ask for verdicts by POST
// (/v1/check and similar paths), and gateways by forward-auth (/v1/auth, /v1/authz).
// Operators read and change policies below /v1/ (package admin) and follow /v1/events.
// Prometheus reads /metrics, and orchestrators read /healthz and /readyz. Go's profiles are
// served if [Config] asks for them.
//
// Each call becomes a command of the Redis protocol, and the reply becomes a verdict
// (package verdict). So all fronts give the same answers. net/http serves the requests. The
// most frequent calls do not pass its mux.
//
// [New] makes a [Server] from a [Config], and [Server.Serve] answers on a listener.
// [Server.SetReady] says when traffic is welcome, and [Server.Drain] when it no longer is.
// [Server.Shutdown] ends the server. The caller implements [Source], which supplies the
// metrics. Every Server has a metrics registry of its own.
//
// # Concurrency
//
// All methods are safe for concurrent use.
package web
