// Package envoy is the gRPC front of the server: Envoy's Rate Limit Service, with
// grpc.health.v1 and reflection beside it.
//
// [New] makes a [Server] from a [Config], [Server.Serve] answers on a listener, and
// [Server.Shutdown] ends it. Each request becomes one command, which the [Decider] runs
// like those of clients. So nothing is decided here.
//
// # Concurrency
//
// All methods are safe for concurrent use.
package envoy
