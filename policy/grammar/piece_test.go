package grammar_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/policy/grammar"
	"github.com/headgate-io/headgate/policy/policytest"
)

var filesInPieces = []string{
	"policies:\n  a: {limits: {l: {rate: 1/s}}}\n  b:\n    limits:\n      l: {rate: 2/s}\n# c\n  c:\n    limits: {l: {rate: x}}\nlists:\n  a: [x]\n  b: [y]\nroutes: {a: {else: allow}, b: {else: nobody}}\n",
	"{policies: {a: {limits: {l: {rate: 1/s}}}, \"b\": {limits: {l: {rate: 2/s}}}, # c\n c: {limits: {ä: {rate: x}}}}, lists: {a: [x], b: [y]}}",
	`{"policies":{"a":{"limits":{"l":{"rate":"1/s"}}},"b":{"limits":{"l":{"rate":"ä"}}},"c":{"limits":{"l":{"rat":"1/s"}}}},"lists":{"l":["a","b"],"m":["]"]}}`,
	"lists: {a: [x], b: [\"}\", '{'],\n c: [z], a: [w]}\npolicies:\n  a: {limits: {l: {rate: 1/s}}}\n",
	"lists:\n  a: [x]\n  b: [y]\n  a: [z]\npolicies:\n  p: {limits: {l: {rate: 1/s, by: u}}}\nlists:\n  c: [w]\n",
	"  policies:\n    a:\n      limits:\n       l: {rate: 1/s, when: {a: \"x\n    b: \"}}\n    c: {limits: {l: {rate: 1/s, when: {a: 'x\n    d:'}}}}\n",
	"policies:\n  a:\n    limits:\n      l:\n        rate:\n          1/s\n        by: u\n         \n  b: x\n   y\n  c: {limits: {l: {rate: 1/s}}}\n",
	"lists:\n  a:\n  - x\n  - y\n  b:\n  - z\n  c: []\n",
	"---\n\"lists\" :\n  'a': [x]\n  \"b\": [x]\nattributes:\n  a: {type: ip}\n  b: {type: lower}\nlists: {}\n",
	"lists:\n  ? a\n  : [x]\n  b: [y]\n  c: [y]\n c: [x]\n",
	"lists:\n  a: [x]\n d: [y]\n  b: [z]\n",
	"lists:\n  {a: [x],\n  b: [y],\n  c: [y]}\n",
	"lists: [a, b, c]\npolicies: [{a: b}, {c: d}]\n",
	"{lists: [a, b, c], policies: {lists: {a: [b], c: [d]}}}",
	"lists:\n  - a: [x]\n    b: [y]\n  - c: [x]\n",
	"policies:\n  lists:\n    limits: {l: {rate: 1/s}}\n    lists: {a: [x], b: [y]}\n  b: {limits: {l: {rate: 1/s}}, lists: {a: [x], b: [y]}}\n",
	"\ufefflists:\r\n  a: [x]\r\n  b: [y]\r\n  c: {}\r\n",
}

// A file that is read in pieces has the same content, and the same errors, as one
// that is read whole.
func TestPiecesAreTheWhole(t *testing.T) {
	for _, body := range filesInPieces {
		pieces, whole, _ := grammar.InPieces([]byte(body))
		require.Equal(t, whole, pieces, body)
	}
	require.Equal(t, 4, grammar.Cuts([]byte(filesInPieces[0])))
	for name, body := range hostile() {
		if pieces, whole, refused := grammar.InPieces([]byte(body)[:4096]); !refused {
			require.Equal(t, whole, pieces, name)
		}
	}
	examples, err := filepath.Glob("../../examples/*/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, examples)
	for _, name := range examples {
		body, err := os.ReadFile(name)
		require.NoError(t, err)
		pieces, whole, _ := grammar.InPieces(body)
		require.Equal(t, whole, pieces, name)
	}
	r := rand.New(rand.NewPCG(3, 4))
	for range 3000 { // parts of texts put together
		var b strings.Builder
		for range 1 + r.IntN(4) {
			lines := strings.SplitAfter(filesInPieces[r.IntN(len(filesInPieces))], "\n")
			at := r.IntN(len(lines))
			b.WriteString(strings.Join(lines[at:at+r.IntN(len(lines)-at)+1], ""))
		}
		if pieces, whole, refused := grammar.InPieces([]byte(b.String())); !refused { // errors may differ
			require.Equal(t, whole, pieces, b.String())
		}
	}
}

func FuzzPieces(f *testing.F) {
	for _, body := range filesInPieces {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) > 4096 {
			return
		}
		if pieces, whole, refused := grammar.InPieces(body); !refused {
			require.Equal(t, whole, pieces)
		}
	})
}

// A file of 10 MB takes the memory of its records and of a piece: whole it took
// 350 MB.
func TestLongFilesTakeLittleMemory(t *testing.T) {
	if policytest.RaceEnabled {
		t.Skip("the race detector's memory is not the product's")
	}
	var b strings.Builder
	b.WriteString("policies:\n")
	for i := range policy.MaxPolicies {
		fmt.Fprintf(&b, "  p%d:\n    limits:\n", i)
		for j := range policy.MaxLimits {
			fmt.Fprintf(&b, "      limit_%d:\n        by: [user, tenant]\n        rate: %d/s\n", j, i+1)
		}
	}
	body := []byte(b.String())
	before, most := policytest.Heap(), make(chan int64)
	done := make(chan struct{})
	go func() { // what the heap has while the file is read
		var m runtime.MemStats
		var top int64
		for {
			select {
			case <-done:
				most <- top
				return
			case <-time.After(10 * time.Millisecond):
				runtime.ReadMemStats(&m)
				top = max(top, int64(m.HeapAlloc))
			}
		}
	}()
	records, err := grammar.ParseFile("f", body)
	close(done)
	require.NoError(t, err)
	require.Len(t, records, policy.MaxPolicies)
	peak, kept := <-most-before, policytest.Heap()-before
	t.Logf("%d MB of text: %d MB of records, %d MB at most", len(body)>>20, kept>>20, peak>>20)
	require.Less(t, kept, int64(130<<20))
	require.Less(t, peak, 2*kept+50<<20) // what Go collects it for, and the pieces
	runtime.KeepAlive(records)
}
