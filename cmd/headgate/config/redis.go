package config

import (
	"cmp"
	"net"
	"slices"
)

// alias is a parameter name of redis.conf that tools and clients read with CONFIG GET. Its
// value is computed from a Config and cannot be changed.
type alias struct {
	name  string
	value func(*Config) string
}

func always(s string) func(*Config) string { return func(*Config) string { return s } }

// aliases lists Redis's parameter names that are not in Params. Some are settings that have
// another name here. Others are features that Headgate lacks; their value is the value that
// Redis has when the feature is off.
var aliases = []alias{
	{"appendfsync", always("everysec")},
	{"appendonly", always("no")},
	{"bind", func(c *Config) string { host, _ := split(c.PlainListen(), c.SecureListen()); return host }},
	{"cluster-enabled", clusterEnabled},
	{"daemonize", always("no")},
	{"databases", always("16")},
	{"dir", func(c *Config) string { return c.DataDir }},
	{"latency-monitor-threshold", always("0")},
	{"logfile", always("")},
	{"loglevel", func(c *Config) string { return redisLevels[c.LogLevel] }},
	{"notify-keyspace-events", always("")},
	{"port", func(c *Config) string { _, port := split(c.PlainListen()); return port }},
	{"save", always("")},
	{"tls-ca-cert-file", func(c *Config) string { return c.TLSCA }},
	{"tls-cert-file", func(c *Config) string { return c.TLSCert }},
	{"tls-key-file", func(c *Config) string { return c.TLSKey }},
	{"tls-port", func(c *Config) string { _, port := split(c.SecureListen()); return port }},
}

// clusterEnabled returns yes if there is a port for clients of Redis Cluster.
func clusterEnabled(c *Config) string {
	on := c.Replicated() && c.ClusterListen != ""
	return yesNo{&on}.String()
}

// redisLevels maps the values of log-level to Redis's words.
var redisLevels = map[string]string{"debug": "debug", "info": "notice", "warn": "warning", "error": "warning"}

// split returns the host and the port of the first address that is not empty. As in Redis,
// port 0 means that the server does not listen.
func split(addresses ...string) (host, port string) {
	for _, a := range addresses {
		if a != "" {
			host, port, _ = net.SplitHostPort(a)
			return host, port
		}
	}
	return "", "0"
}

func findAlias(name string) *alias {
	for i := range aliases {
		if aliases[i].name == name {
			return &aliases[i]
		}
	}
	return nil
}

// hint is a setting that tells Redis how to store values. Any number is accepted, and
// CONFIG GET returns it. The setting has no effect, because Headgate has one form for each
// type.
type hint struct {
	name, former string // former is the name before Redis 7; "" if it was the same
	value        string // the value in a new Redis
}

var hints = [...]hint{
	{"hash-max-listpack-entries", "hash-max-ziplist-entries", "512"},
	{"hash-max-listpack-value", "hash-max-ziplist-value", "64"},
	{"list-compress-depth", "", "0"},
	{"list-max-listpack-size", "list-max-ziplist-size", "-2"},
	{"set-max-intset-entries", "", "512"},
	{"zset-max-listpack-entries", "zset-max-ziplist-entries", "128"},
	{"zset-max-listpack-value", "zset-max-ziplist-value", "64"},
}

// findHint returns the index of the hint with a name, or -1.
func findHint(name string) int {
	return slices.IndexFunc(hints[:], func(h hint) bool { return name != "" && (name == h.name || name == h.former) })
}

// hint returns the value of a hint.
func (c *Config) hint(i int) string { return cmp.Or(c.hints[i], hints[i].value) }
