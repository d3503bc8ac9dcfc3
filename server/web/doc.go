// Package web is the HTTP front of the server. Applications ask for verdicts by POST
// (/v1/check and its like), gateways by forward-auth (/v1/auth, /v1/authz). Operators
// read and change policies below /v1/ (package admin) and follow /v1/events. /metrics is
// for Prometheus, /healthz and /readyz are for orchestrators, and Go's profiles are
// there when asked for.
//
// Calls become commands of the Redis protocol, and their replies become verdicts: see
// package verdict. So all fronts answer alike. net/http serves; the calls that are asked
// most go before its mux.
//
// [New] makes a [Server] from a [Config], and [Server.Serve] answers on a listener.
// [Server.SetReady] says when traffic is welcome, and [Server.Drain] when it no longer is.
// [Server.Shutdown] ends the server. What the metrics show comes through [Source], which
// the caller implements over the Redis front and the engine. Every Server has a registry of
// its own.
//
// # Concurrency
//
// All methods are safe for concurrent use.
package web
