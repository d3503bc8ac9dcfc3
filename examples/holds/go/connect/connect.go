// Package connect finds Headgate.
package connect

import (
	"time"

	"github.com/redis/go-redis/v9"
)

// To returns a client of one server, or of a cluster. Of a cluster, name some nodes: the
// client finds the others and follows the leader.
func To(addrs ...string) redis.UniversalClient {
	if len(addrs) == 1 {
		return redis.NewClient(&redis.Options{Addr: addrs[0], Protocol: 2, ReadTimeout: time.Second})
	}
	return redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: addrs, Protocol: 2, ReadTimeout: time.Second,
		ClusterStateReloadInterval: 500 * time.Millisecond, // a minute by default: too long with a dead node
		DialerRetries:              1,
	})
}
