// Package envoy is the gRPC front of the server: Envoy's Rate Limit Service, and also
// grpc.health.v1 and reflection.
//
// [New] makes a [Server] from a [Config], [Server.Serve] answers on a listener, and
// [Server.Shutdown] ends the server. Each request becomes one command, which the [Decider]
// runs in the same way as commands of clients. So this package decides nothing itself.
//
// # Concurrency
//
// All methods are safe for concurrent use.
package envoy
