// Package web is the HTTP front of the server: /metrics for Prometheus,
// /healthz and /readyz for orchestrators, Go's profiles when asked for.
//
// [New] makes a [Server] from a [Config], [Server.Serve] answers on a listener,
// [Server.SetReady] says when traffic is welcome, [Server.Drain] when it no longer is,
// and [Server.Shutdown] ends it. What the metrics show comes through [Source], which
// the caller implements over the Redis front and the engine. Every Server has a
// registry of its own.
//
// # Concurrency
//
// All methods are safe for concurrent use.
package web
