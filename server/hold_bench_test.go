package server

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/headgate-io/headgate/engine"
)

// BenchmarkHolds runs pipelines of 16 random commands, from the bytes of the input to those of
// the replies. They are of a million callers under three limits: checks, holds and their
// settlements, and checks with an ID. There are as many records as may exist.
func BenchmarkHolds(b *testing.B) {
	const (
		policy = "{limits: {user: {by: user, rate: 1000/day}, pair: {by: [tenant, user], rate: 1001/day}, tenant: {by: tenant, rate: 1000000/day}}}"
		call   = " p user user__caller tenant tenant__group"
	)
	for _, v := range []struct{ name, commands string }{
		{"check", "RL.CHECK" + call},
		{"held", "RL.RESERVE" + call + " ID __number\nRL.COMMIT p;__number COST 1"},
		{"named", "RL.CHECK" + call + " ID __number"},
	} {
		b.Run(v.name, func(b *testing.B) {
			r := newRig(b, engine.Config{})
			r.setPolicy("p", policy)
			p := newBenchPipeline(strings.Split(v.commands, "\n"))
			for caller := uint64(0); caller < benchCallers; {
				p.run(r, func() uint64 { caller++; return caller - 1 })
			}
			random := rand.New(rand.NewPCG(1, 2))
			next := func() uint64 { return random.Uint64N(benchCallers) }
			for p.steps < 2*benchCallers {
				p.run(r, next)
			}
			b.ReportAllocs()
			for b.Loop() {
				p.run(r, next)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchPipelined, "ns/command")
		})
	}
}

const (
	benchCallers   = 1_000_000
	benchGroups    = 1000
	benchPipelined = 16
)

// benchPipeline is the input of a pipeline, with holes for numbers of as many digits.
type benchPipeline struct {
	in    []byte
	holes []benchHole
	steps uint64 // so far: what __number is
	each  int    // commands of a step
}

type benchHole struct {
	at, command int
	kind        string
}

func newBenchPipeline(commands []string) *benchPipeline {
	p := &benchPipeline{each: len(commands)}
	for i := range benchPipelined {
		raw := encode(strings.Fields(commands[i%len(commands)])...)
		for _, kind := range []string{"__caller", "__group", "__number"} {
			for from := 0; ; {
				at := strings.Index(raw[from:], kind)
				if at < 0 {
					break
				}
				p.holes = append(p.holes, benchHole{len(p.in) + from + at, i, kind})
				from += at + len(kind)
			}
		}
		p.in = append(p.in, raw...)
	}
	return p
}

// run runs the pipeline; next is the number of a step's caller.
func (p *benchPipeline) run(r *rig, next func() uint64) {
	caller, step := uint64(0), -1
	for _, h := range p.holes {
		if at := h.command / p.each; at != step {
			step, caller = at, next()
			p.steps++
		}
		n := caller
		switch h.kind {
		case "__group":
			n %= benchGroups
		case "__number":
			n = p.steps
		}
		for i := h.at + len(h.kind) - 1; i >= h.at; i-- {
			p.in[i] = byte('0' + n%10)
			n /= 10
		}
	}
	r.lane.begin()
	r.input(p.in)
	r.lane.end()
	r.w.B = r.w.B[:0]
}
