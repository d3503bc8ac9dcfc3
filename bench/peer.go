package main

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/headgate-io/headgate/bench/load"
	"github.com/headgate-io/headgate/internal/respclient"
	"github.com/headgate-io/headgate/internal/subprocess"
	"github.com/headgate-io/headgate/resp"
)

var (
	//go:embed scripts/threebuckets.lua
	threeBucketsLua string
	//go:embed scripts/tokenbucket.lua
	tokenBucketLua string
	//go:embed scripts/gcra.lua
	gcraLua string
)

// Names of the peers, as results carry them.
const (
	headgate     = "headgate"
	redisLua     = "redis-lua"
	redisGCRA    = "redis-lua-gcra"
	redisINCR    = "redis-incr"
	redisPING    = "redis-ping"
	redisCell    = "redis-cell"
	throttlecrab = "throttlecrab"
)

// quota is a limit: count units every so many seconds, of which capacity may
// come at once.
type quota struct{ capacity, count, seconds int }

// daily is n a day, all at once if need be.
func daily(n int) quota { return quota{n, n, 86400} }

// limit is the size of the daily quota of the million-key loads. Its keys live for the
// whole run, so every table holds its million keys. A key is hit less often than 100
// times, so most calls are admitted and write.
const limit = 100

// sharedLimit is the limit of the replicated loads, which share out as many calls over
// few keys as over many. It admits all of them: a denied call writes nothing, so its
// replication would cost nothing.
func sharedLimit(keys int) int { return max(limit, 1_000_000_000/keys) }

// randomKey is a key of 16 bytes, of load and of redis-benchmark.
const randomKey = "key:" + load.Placeholder

// hotKey begins the one key of a hot-key load.
const hotKey = "hot:key:"

// peer is one contestant: a server of its own and what a check is on it.
type peer struct {
	name, label string
	start       func(dir string) (*process, error)
	// prepare, if set, runs once when the server is up.
	prepare func(p *peer) error
	// check is the command of one check of key by a limit.
	check func(key string, q quota) []string
	// fill says that the million keys are to be created before measuring.
	fill bool
	// lockstep servers answer a pipeline in one packet per reply and wait for
	// delayed acknowledgements in between, so they are filled without one.
	lockstep bool
	// extra peers have no target and are left out of quick runs.
	extra bool

	*process
}

// paths are the programs the peers need; an empty one leaves its peer out.
type paths struct {
	headgate, redisCell, throttlecrab, envoyRatelimit, nginx, envoy string
}

// peers lists those whose programs are there, and notes about the others.
func peers(bin paths) (list []*peer, notes []string) {
	redis := func(extra ...string) func(name string) func(string) (*process, error) {
		return func(name string) func(string) (*process, error) {
			return func(dir string) (*process, error) { return startRedis(dir, name, extra...) }
		}
	}
	plain := redis()
	list = append(list,
		&peer{name: headgate, label: "Headgate CL.THROTTLE", fill: true,
			start: func(dir string) (*process, error) { return startHeadgate(dir, bin.headgate) },
			check: throttleArgs("CL.THROTTLE", 1)},
		&peer{name: redisLua, label: "Redis + Lua token bucket", fill: true, start: plain(redisLua),
			prepare: func(p *peer) error {
				return p.loadScript(tokenBucketLua, func(q quota) string {
					return strconv.FormatFloat(float64(q.count)/float64(q.seconds), 'g', -1, 64)
				})
			}},
		&peer{name: redisINCR, label: "Redis INCR", fill: true, start: plain(redisINCR),
			check: func(key string, _ quota) []string { return []string{"INCR", key} }},
		&peer{name: redisPING, label: "Redis PING", start: plain(redisPING),
			check: func(string, quota) []string { return []string{"PING"} }},
		&peer{name: redisGCRA, label: "Redis + Lua GCRA", fill: true, extra: true, start: plain(redisGCRA),
			prepare: func(p *peer) error {
				return p.loadScript(gcraLua, func(q quota) string {
					return strconv.FormatFloat(float64(q.seconds)*1e6/float64(q.count), 'g', -1, 64)
				})
			}},
	)
	if bin.redisCell != "" {
		list = append(list, &peer{name: redisCell, label: "Redis + redis-cell", fill: true, extra: true,
			start: redis("--loadmodule", bin.redisCell)(redisCell), check: throttleArgs("CL.THROTTLE", 1)})
	} else {
		notes = append(notes, "redis-cell is left out: no module given (BENCH_REDIS_CELL)")
	}
	if bin.throttlecrab != "" {
		list = append(list, &peer{name: throttlecrab, label: "throttlecrab THROTTLE", fill: true, lockstep: true, extra: true,
			start: func(dir string) (*process, error) { return startThrottlecrab(dir, bin.throttlecrab) },
			check: throttleArgs("THROTTLE", 0)})
	} else {
		notes = append(notes, "throttlecrab is left out: no program given (BENCH_THROTTLECRAB)")
	}
	if bin.envoyRatelimit == "" {
		notes = append(notes, "envoyproxy/ratelimit is left out: no program given (BENCH_ENVOY_RATELIMIT)")
	}
	if bin.nginx == "" {
		notes = append(notes, "nginx is left out: it is not installed (Debian: apt install nginx-light)")
	}
	if bin.envoy == "" {
		notes = append(notes, "Envoy is left out: it is not installed (make deps)")
	}
	return list, notes
}

// throttleArgs builds `command key max_burst count period`; max_burst is the
// capacity less so many.
func throttleArgs(command string, less int) func(string, quota) []string {
	return func(key string, q quota) []string {
		return []string{command, key, strconv.Itoa(q.capacity - less), strconv.Itoa(q.count), strconv.Itoa(q.seconds)}
	}
}

// loadScript makes EVALSHA of a script the peer's check; speed computes the
// script's second argument.
func (p *peer) loadScript(script string, speed func(quota) string) error {
	sha, err := p.ask("SCRIPT", "LOAD", script)
	if err != nil {
		return err
	}
	p.check = func(key string, q quota) []string {
		return []string{"EVALSHA", sha.Str, "1", key, strconv.Itoa(q.capacity), speed(q), "1"}
	}
	return nil
}

// ask runs one command.
func (p *process) ask(args ...string) (resp.Reply, error) {
	r, err := respclient.Do(p.addr, askTimeout, args...)
	if err != nil {
		return r, fmt.Errorf("%s: %s: %w", p.name, args[0], err)
	}
	return r, nil
}

// askTimeout bounds one command, that of a script's compilation among them.
const askTimeout = 10 * time.Second

// keys is how many keys the server has.
func (p *process) keys() (uint64, error) {
	r, err := p.ask("DBSIZE")
	return uint64(r.Int), err
}

// info returns the fields of a section of INFO.
func (p *process) info(section string) (map[string]string, error) {
	text, err := p.ask("INFO", section)
	if err != nil {
		return nil, err
	}
	fields := make(map[string]string)
	for line := range strings.Lines(text.Str) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields, nil
}

// startRedis starts redis-server without persistence and otherwise as it
// comes. Its documentation advises io-threads only from four cores on.
func startRedis(dir, name string, extra ...string) (*process, error) {
	addrs, err := subprocess.Addrs("127.0.0.1", 1)
	if err != nil {
		return nil, err
	}
	host, port, _ := strings.Cut(addrs[0], ":")
	args := append([]string{"--port", port, "--bind", host, "--save", "", "--appendonly", "no", "--dir", dir}, extra...)
	return startProcess(dir, name, addrs[0], "redis-server", args...)
}

func startHeadgate(dir, path string, flags ...string) (*process, error) {
	addrs, err := subprocess.Addrs("127.0.0.1", 2)
	if err != nil {
		return nil, err
	}
	args := append([]string{"serve", "--listen", addrs[0], "--http-listen", addrs[1]}, flags...)
	p, err := startProcess(dir, headgate, addrs[0], path, args...)
	if err != nil {
		return nil, err
	}
	p.http = addrs[1]
	return p, nil
}

// startThrottlecrab starts throttlecrab-server with room for all keys and
// without the log line per event, as its README advises for throughput.
func startThrottlecrab(dir, path string) (*process, error) {
	addrs, err := subprocess.Addrs("127.0.0.1", 1)
	if err != nil {
		return nil, err
	}
	host, port, _ := strings.Cut(addrs[0], ":")
	return startProcess(dir, throttlecrab, addrs[0], path,
		"--redis", "--redis-host", host, "--redis-port", port,
		"--store", "adaptive", "--store-capacity", "2000000", "--log-level", "error")
}
