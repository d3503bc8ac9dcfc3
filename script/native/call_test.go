package native

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A call that names more keys than its script uses holds them all, on a loop. So
// it is left to the Lua, which may leave the loop.
func TestManyKeysAreLeftToTheLua(t *testing.T) {
	keys := make([]string, maxIsolated+1)
	for i := range keys {
		keys[i] = fmt.Sprintf("k%d", i)
	}
	few, many := strings.Join(keys[:maxIsolated], " "), strings.Join(keys, " ")
	for sha, args := range map[string]string{
		"e8ac2a60cb040b0dbb56815a1e9c6fd032ce62e7": "10 60 1",                // limits, sliding window
		"f1e0da9c495676ab6904eb80db1f2811d5347f58": "default 60000 10 60000", // @nest-lab/throttler
		"0ad5736ed1c04aae6ec194376c784b89b8c08a7a": "10 100 1800000000 1",    // Spring Cloud Gateway
		shaFunnel: "name 60 me",
	} {
		r := newRig(t)
		require.NotEqual(t, declined, r.run(sha, few, args), sha)
		require.Equal(t, declined, r.run(sha, many, args), sha)
	}
}
