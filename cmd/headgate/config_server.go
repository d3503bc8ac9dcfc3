package main

import (
	"github.com/headgate-io/headgate/cluster"
	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/cmd/headgate/config"
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/server"
	"github.com/headgate-io/headgate/server/access"
	"github.com/headgate-io/headgate/server/envoy"
	"github.com/headgate-io/headgate/server/fronts"
	"github.com/headgate-io/headgate/server/web"
)

// serverConfig returns the Redis front's part of c. engines decide, one for each group. node
// is nil without replication.
func serverConfig(c *config.Config, engines []*engine.Engine, node *cluster.Node) server.Config {
	sc := server.Config{
		Version:           buildVersion(),
		IOThreads:         c.IOThreads,
		Runtime:           runtimeConfig(c),
		WriteTimeout:      c.WriteTimeout,
		TCPKeepAlive:      c.TCPKeepalive,
		MaxArgs:           c.MaxArgs,
		MaxBulk:           int(c.ProtoMaxBulkLen),
		QueryBufferLimit:  int(c.ClientQueryBufferLimit),
		OutputBufferSoft:  int(c.ClientOutputBufferSoftLimit),
		OutputBufferLimit: int(c.ClientOutputBufferLimit),
		MaxWaitingReplies: c.MaxWaitingReplies,
		NoGateways:        len(c.TrustedProxies) == 0,
	}
	for i, e := range engines {
		part := server.Part{Engine: e}
		if node != nil {
			part.Replication = node.Group(i)
		}
		sc.Parts = append(sc.Parts, part)
	}
	if node != nil {
		sc.Info = &nodeInfo{node}
		sc.Backstop = int64(c.Backstop)
		sc.ForwardTimeout = c.ForwardTimeout
		sc.HandoverWait = c.HandoverWait
		switch c.FailurePolicy() {
		case config.FailureOpen:
			sc.OnFailure = partition.FailOpen
		case config.FailureLocal:
			sc.OnFailure = partition.FailLocal
		}
	}
	return sc
}

// envoyConfig returns the configuration of the gRPC front.
func envoyConfig(c *config.Config, front *server.Server, http *web.Server, asked *fronts.Counts) envoy.Config {
	return envoy.Config{
		Decider:    front.Caller(),
		MaxClients: c.GRPCMaxClients,
		Local:      config.Loopback(c.GRPCListen),
		Fronts:     asked,
		Fit: func() error {
			if err := http.Ready(); err != nil {
				return err
			}
			return front.Decides()
		},
	}
}

// runtimeConfig returns the part of c that can change while the Redis front runs.
func runtimeConfig(c *config.Config) server.Runtime {
	return server.Runtime{
		RequirePass:      c.RequirePass,
		AdminPass:        c.AdminPass,
		Access:           [...]access.Grants{access.PortHTTP: httpAccess(c), access.PortGRPC: grpcAccess(c)},
		Protected:        c.ProtectClients(),
		MaxClients:       c.MaxClients,
		ClientMemory:     c.ClientMemory(),
		Timeout:          c.Timeout,
		ScriptTime:       c.LuaTimeLimit,
		SlowlogThreshold: c.SlowlogLogSlowerThan,
		SlowlogMaxLen:    c.SlowlogMaxLen,
		DecisionsDenied:  int64(c.DecisionLogDenied),
		DecisionsOneIn:   int64(c.DecisionLogAllowed),
	}
}

// grpcAccess returns who may do what over gRPC, which can only ask for decisions.
func grpcAccess(c *config.Config) (a access.Grants) {
	a.Tokens[access.RightRead], a.Certificates[access.RightRead] = c.GRPCReadToken, c.GRPCReadCerts
	return a
}

// httpAccess returns who may do what over HTTP.
func httpAccess(c *config.Config) (a access.Grants) {
	for right, of := range map[access.Right]struct {
		token string
		certs []string
	}{
		access.RightRead:  {c.HTTPReadToken, c.HTTPReadCerts},
		access.RightSee:   {c.HTTPSeeToken, c.HTTPSeeCerts},
		access.RightWrite: {c.HTTPWriteToken, c.HTTPWriteCerts},
	} {
		a.Tokens[right], a.Certificates[right] = of.token, of.certs
	}
	return a
}
