package server

import (
	"fmt"
	"testing"

	"github.com/headgate-io/headgate/engine"
)

// BenchmarkCheckOfPolicies is a pipeline of 16 checks from the bytes of the input
// to those of the replies, beside one of CL.THROTTLE: 20 000 callers.
func BenchmarkCheckOfPolicies(b *testing.B) {
	limits := func(n int) string {
		text := "{limits: {"
		for i := range n {
			by := []string{"by: user, ", "by: [tenant, user], ", "by: tenant, "}[i%3]
			text += fmt.Sprintf("l%d: {%srate: %d/h}, ", i, by, 1_000_000+i)
		}
		return text + "}}"
	}
	for _, n := range []int{0, 1, 3, 10} {
		b.Run(fmt.Sprintf("limits=%d", n), func(b *testing.B) {
			r := newRig(b, engine.Config{})
			const callers, pipeline = 20_000, 16
			var input []string
			batch := ""
			for i := range callers {
				user, tenant := fmt.Sprintf("user%06d", i*7919%callers), fmt.Sprintf("tenant%03d", i%500)
				if n == 0 {
					batch += encode("CL.THROTTLE", "throttle:"+tenant+":"+user, "1000000", "1000000", "3600")
				} else {
					batch += encode("RL.CHECK", "p", "user", user, "tenant", tenant)
				}
				if i%pipeline == pipeline-1 {
					input, batch = append(input, batch), ""
				}
			}
			if n > 0 {
				r.setPolicy("p", limits(n))
			}
			for _, in := range input {
				r.feed(in)
				r.take()
			}
			bytes := make([][]byte, len(input))
			for i := range input {
				bytes[i] = []byte(input[i])
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				r.lane.begin()
				r.input(bytes[i%len(bytes)])
				r.lane.end()
				r.w.B = r.w.B[:0]
				i++
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/pipeline, "ns/check")
		})
	}
}
