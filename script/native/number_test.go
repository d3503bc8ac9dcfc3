package native

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/script/lua"
)

// Numbers are read as tonumber reads them, whichever way is quicker.
func TestNumber(t *testing.T) {
	texts := []string{
		"", ".", "1.", ".5", "1..2", "1.5", "0.1", "00.10", "1780315200.123456", "9007199254740.993", "9007199254740.9931", "90071992547409.92", "999999999.9999999",
		"-1.5", "+1.5", " 1.5", "1.5 ", "1.5e3", "1e-7", "0x1.8", "inf", "nan", "12345678901234567", "007", "-7", "1,5", "1.5\x00",
	}
	// Just above the middle of two floats, by the last digits.
	texts = append(texts, "9007199254740993.001", "9007199254740992.999", "9007199254740993.0", "1.000000000000000111", "4503599627370497.5001", "9999999999999999.999", "0.000000000000000000", "18446744073709551616", "9999999999999999999", "1.0000000000000000000")
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		texts = append(texts, fmt.Sprintf("%d.%0*d", rnd.Int64N(1<<uint(rnd.IntN(40))+1), 1+rnd.IntN(9), rnd.Int64N(1<<uint(rnd.IntN(25))+1)))
	}
	for _, text := range texts {
		want, wantOK := lua.ParseNumber(text)
		got, ok := number([]byte(text))
		require.Equal(t, wantOK, ok, "%q", text)
		if ok && want == want {
			require.Equal(t, want, got, "%q", text)
		}
	}
}
