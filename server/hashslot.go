package server

import (
	"bytes"

	"github.com/headgate-io/headgate/cluster/partition"
)

// clusterSlots is the number of hash slots.
const clusterSlots = partition.HashSlots

// keySlot returns the hash slot of a key: the CRC16 of the key's hash tag or, without one,
// of the whole key. The hash tag is the text between the first { and the next }, if it is
// not empty.
func keySlot(key []byte) uint16 {
	if i := bytes.IndexByte(key, '{'); i >= 0 {
		if n := bytes.IndexByte(key[i+1:], '}'); n > 0 {
			key = key[i+1 : i+1+n]
		}
	}
	return crc16(key) % clusterSlots
}

// crcTable has the tables of CRC-16/XMODEM: polynomial 0x1021, not reflected. crcTable[k][x]
// is the CRC of the byte x and k zero bytes. So eight bytes need eight independent lookups.
var crcTable = func() (t [8][256]uint16) {
	for i := range t[0] {
		crc := uint16(i) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		t[0][i] = crc
	}
	for k := range t[1:] {
		for i, crc := range t[k] {
			t[k+1][i] = crc<<8 ^ t[0][crc>>8]
		}
	}
	return t
}()

func crc16(b []byte) (crc uint16) {
	for ; len(b) >= 8; b = b[8:] {
		crc = crcTable[7][b[0]^byte(crc>>8)] ^ crcTable[6][b[1]^byte(crc)] ^ crcTable[5][b[2]] ^ crcTable[4][b[3]] ^
			crcTable[3][b[4]] ^ crcTable[2][b[5]] ^ crcTable[1][b[6]] ^ crcTable[0][b[7]]
	}
	for _, x := range b {
		crc = crc<<8 ^ crcTable[0][byte(crc>>8)^x]
	}
	return crc
}
