package server

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// bitwiseCRC is CRC-16/XMODEM by its definition.
func bitwiseCRC(b []byte) (crc uint16) {
	for _, x := range b {
		crc ^= uint16(x) << 8
		for range 8 {
			carry := crc&0x8000 != 0
			if crc <<= 1; carry {
				crc ^= 0x1021
			}
		}
	}
	return crc
}

func TestCRCOfAnyLength(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 100 {
		for range 50 {
			b := make([]byte, n)
			for i := range b {
				b[i] = byte(r.Uint32())
			}
			require.Equal(t, bitwiseCRC(b), crc16(b), "%x", b)
		}
	}
}

func BenchmarkKeySlot(b *testing.B) {
	key := bytes.Repeat([]byte("k"), 16)
	for b.Loop() {
		keySlot(key)
	}
}
