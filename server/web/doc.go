// Package web is the HTTP front of the server. Applications ask whether a call may pass
// by POST (/v1/check and similar paths), and gateways by forward-auth (/v1/auth,
// /v1/authz). Operators read and change policies below /v1/ (package admin) and follow
// /v1/events. Prometheus reads /metrics, and orchestrators read /healthz and /readyz. If
// [Config] enables them, Go's profiles are served too.
//
// Each call becomes a command of the Redis protocol, and package verdict turns the reply
// into the HTTP answer. So all fronts give the same answers. net/http serves the
// requests, but the most frequent calls bypass its mux.
//
// [New] makes a [Server] from a [Config], and [Server.Serve] answers on a listener.
// [Server.SetReady] says that the node can take traffic, and [Server.Drain] that it
// should get no more. [Server.Shutdown] ends the server. The caller implements [Source],
// which supplies the metrics. Every Server has its own metrics registry.
//
// # Concurrency
//
// All methods are safe for concurrent use.
package web
