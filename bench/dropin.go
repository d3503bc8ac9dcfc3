package main

import (
	"context"
	"embed"
	"fmt"
	"strings"
	"time"

	"github.com/headgate-io/headgate/resp"
)

// scriptFiles are scripts in wording of our own; scripts/known has, of each
// library whose script Headgate knows, one that calls the same commands.
//
//go:embed scripts
var scriptFiles embed.FS

// dropinReport is what clients of Redis get that talk to Headgate instead.
type dropinReport struct {
	Rows []*dropinRow `json:"rows"`
	Log  *logRow      `json:"sorted_set_log,omitempty"`
	// Unknown names the scripts that this build does not know.
	Unknown []string `json:"unknown_scripts,omitempty"`
}

// dropinRow is the cost of a command, or of a step of several, on both servers.
type dropinRow struct {
	Name     string `json:"name"`
	Kind     string `json:"kind"`
	Headgate []cost `json:"headgate"`
	Redis    []cost `json:"redis"`
}

// Kinds of rows.
const (
	dropinCommand = "command"
	dropinScript  = "interpreted"
	dropinKnown   = "known script"
)

// dropinSpec is a row before it is measured.
type dropinSpec struct {
	name, kind string
	commands   []string
	keys       uint64
	past       int64 // see stream
	// script is the file of a script. Its SHA1 takes the place of SHA in the command.
	// known is the name that Headgate knows it by.
	script, known string
}

// scriptSHA stands for a script's SHA1.
const scriptSHA = "SHA"

// dropinKeys is how many keys a row has, and logKeys those with long values.
const (
	dropinKeys = 100_000
	logKeys    = 10_000
)

// logEntries is how many entries a sorted set of the rows has on the average.
const logEntries = 30

func dropinSpecs() []dropinSpec {
	var specs []dropinSpec
	command := func(name string, keys uint64, past int64, commands ...string) {
		specs = append(specs, dropinSpec{name: name, kind: dropinCommand, commands: commands, keys: keys, past: past})
	}
	script := func(name, file string, keys uint64, past int64, arguments string) {
		specs = append(specs, dropinSpec{name: name, kind: dropinScript, script: file, keys: keys, past: past,
			commands: []string{"EVALSHA SHA " + arguments}})
	}
	known := func(name, file, sha, arguments string) {
		specs = append(specs, dropinSpec{name: name, kind: dropinKnown, script: "known/" + file, known: sha, keys: dropinKeys,
			commands: []string{"EVALSHA SHA " + arguments}})
	}
	const key, now, old = streamKey, streamTime, streamPast
	command("INCR", dropinKeys, 0, "INCR counter:"+key)
	command("INCRBY, EXPIRE", dropinKeys, 0, "INCRBY limit:"+key+" 1", "EXPIRE limit:"+key+" 60")
	command("SET", dropinKeys, 0, "SET value:"+key+" "+now)
	command("GET", dropinKeys, 0, "GET value:"+key) // of those that SET has left
	command("HMGET, HSET", dropinKeys, 0, "HMGET hash:"+key+" tokens at", "HSET hash:"+key+" tokens 99.5 at "+now)
	command("ZREMRANGEBYSCORE, ZCARD, ZADD", logKeys, logKeys*logEntries,
		"ZREMRANGEBYSCORE zset:"+key+" -inf "+old, "ZCARD zset:"+key, "ZADD zset:"+key+" "+now+" "+now)

	script("token bucket in a hash", "tokenbucket.lua", dropinKeys, 0, "1 bucket:"+key+" 100 10 1")
	script("GCRA in a string", "gcra.lua", dropinKeys, 0, "1 gcra:"+key+" 100 100000 1")
	script("log in a sorted set", "slidinglog.lua", logKeys, 0, fmt.Sprintf("1 log:%s 100 %d %s 60000", key, logKeys*logEntries, now))

	known("redis_rate", "redisrate.lua", "f52a5b566060d79fd321d695df55bc918339c4aa", "1 rate:"+key+" 100 10 1 1")
	known("rate-limiter-flexible", "ratelimiterflexible.lua", "a1de965f42e177aa339706bd580f049065eca79a", "1 rlflx:"+key+" 1 60")
	known("rate-limit-redis", "ratelimitredis.lua", "895b92e1712734e1b464999be23953485475357b", "1 rl:"+key+" 60000")
	known("@fastify/rate-limit", "fastify.lua", "b8a19d47785922bb04e7a9fdb49e90d89be1b8af", "1 fastify:"+key+" 60000 100 false false")
	known("@nest-lab/throttler", "nestlab.lua", "f1e0da9c495676ab6904eb80db1f2811d5347f58", "2 nest:"+key+":hits nest:"+key+":blocked default 60000 1000000 60000")
	known("ulule/limiter", "ulule.lua", "f74233f556d3f99c50b61169cf8aa8d5deb63fb2", "1 limiter:"+key+" 1 60000")
	known("Laravel cache add", "laraveladd.lua", "a08c9c69b7c07ae2485190873b90d128a23e502d", "1 laravel:"+key+" 1 60")
	known("Bucket4j create", "bucket4jcreate.lua", "c0569386b0382069581dfaa1a8d241140bc0eeb4", "1 bucket4j:"+key+" state 60000")
	known("Bucket4j compare and swap", "bucket4jswap.lua", "535b2fd00a12a23393fe15cf99599ecc51cd3007", "1 bucket4j:"+key+" state state 60000") // of those that create has left
	known("limits, moving window", "limitsmoving.lua", "741eab638ba93ed71020bb821c45c022d0fa02c4", "1 LIMITS:moving:"+key+" "+now+".12345 10 60 1")
	known("limits, fixed window", "limitsfixed.lua", "628bd136a573a06b346879695681af12ccef300f", "1 LIMITS:"+key+" 60 1")
	known("Spring Cloud Gateway", "springgateway.lua", "0ad5736ed1c04aae6ec194376c784b89b8c08a7a", "2 gateway:"+key+":tokens gateway:"+key+":timestamp 10 100  1")
	return specs
}

// dropinLane is one row against one server.
type dropinLane struct {
	*stream
	row *dropinRow
	to  *[]cost
}

// measureDropIn measures what clients of Redis send, against both servers.
func (b *bench) measureDropIn(ctx context.Context, dir string) (*dropinReport, error) {
	rep := &dropinReport{}
	ours, err := startHeadgate(dir, b.bin.headgate)
	if err != nil {
		return rep, err
	}
	defer ours.stop()
	theirs, err := startRedis(dir, "redis")
	if err != nil {
		return rep, err
	}
	defer theirs.stop()
	var lanes []dropinLane
	for _, spec := range dropinSpecs() {
		commands, err := spec.prepare(ours, theirs)
		if err != nil {
			if spec.kind == dropinKnown && strings.Contains(err.Error(), "NOSCRIPT") {
				rep.Unknown = append(rep.Unknown, spec.name)
				continue
			}
			return rep, fmt.Errorf("%s: %w", spec.name, err)
		}
		row := &dropinRow{Name: spec.name, Kind: spec.kind}
		rep.Rows = append(rep.Rows, row)
		lanes = append(lanes,
			dropinLane{newStream(ours, commands[0], spec.keys, spec.past), row, &row.Headgate},
			dropinLane{newStream(theirs, commands[1], spec.keys, spec.past), row, &row.Redis})
	}
	// Short runs: there are many rows, and the processor time of a command varies
	// less than the rate.
	d := b.runTime / 3
	for round := -1; round < max(3, b.runs-2); round++ {
		for _, l := range lanes {
			c, err := l.run(ctx, d)
			if err != nil {
				return rep, fmt.Errorf("%s: %w", l.row.Name, err)
			}
			if ctx.Err() != nil {
				return rep, ctx.Err()
			}
			if round < 0 { // creates most of the keys
				continue
			}
			*l.to = append(*l.to, c)
			b.logf("drop-in  %-30s %-12s %9.0f/s  %6.2f µs CPU", l.row.Name, l.p.name, c.Rate, micros(c.CPU))
		}
	}
	ours.stop()
	theirs.stop()
	rep.Log, err = b.measureLog(ctx, dir)
	return rep, err
}

// prepare loads the row's script, and returns the commands for each server,
// after it has seen that both answer alike.
func (s *dropinSpec) prepare(ours, theirs *process) (commands [2][][]string, err error) {
	shas := [2]string{s.known, ""}
	if s.script != "" {
		text, err := scriptFiles.ReadFile("scripts/" + s.script)
		if err != nil {
			return commands, err
		}
		for i, p := range []*process{ours, theirs} {
			if shas[i] != "" {
				continue
			}
			sha, err := p.ask("SCRIPT", "LOAD", string(text))
			if err != nil {
				return commands, err
			}
			shas[i] = sha.Str
		}
	}
	for _, line := range s.commands {
		var shapes [2]string
		for i, p := range []*process{ours, theirs} {
			args := strings.Split(line, " ") // two spaces are an empty argument
			if s.script != "" && args[1] == scriptSHA {
				args[1] = shas[i]
			}
			commands[i] = append(commands[i], args)
			first := make([]string, len(args))
			for j, arg := range args {
				first[j] = firstStep.Replace(arg)
			}
			reply, err := p.ask(first...)
			if err != nil {
				return commands, err
			}
			shapes[i] = shape(&reply)
		}
		if shapes[0] != shapes[1] {
			return commands, fmt.Errorf("%s: Headgate answers %s, Redis %s", line, shapes[0], shapes[1])
		}
	}
	return commands, nil
}

// firstStep fills in the placeholders of a stream for one call before it.
var firstStep = strings.NewReplacer(streamKey, "000000000000", streamTime, "499999999999", streamPast, "400000000000")

// shape is the types of a reply and of its elements.
func shape(r *resp.Reply) string {
	s := string(r.Type)
	for i := range r.Elems {
		s += shape(&r.Elems[i])
	}
	return s
}

func costCPU(c cost) time.Duration { return c.CPU }
func costRate(c cost) float64      { return c.Rate }
