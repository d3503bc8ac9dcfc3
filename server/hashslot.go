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

// crcTable is the table of CRC-16/XMODEM: polynomial 0x1021, not reflected.
var crcTable = func() (t [256]uint16) {
	for i := range t {
		crc := uint16(i) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		t[i] = crc
	}
	return t
}()

func crc16(b []byte) (crc uint16) {
	for _, x := range b {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^x]
	}
	return crc
}
