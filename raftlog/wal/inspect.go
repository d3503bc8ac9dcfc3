package wal

import "errors"

// Frames returns where each frame of a segment's file begins, and where the last one ends.
// It is for programs that damage a log on purpose. It does not change the file.
func Frames(path string) (at []int64, err error) {
	s, _, err := openSegment(path, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.file.Close()) }()
	_, err = s.scan(func(_ frame, _ []byte, payload int64) error {
		at = append(at, payload-frameHeaderSize)
		return nil
	})
	return append(at, s.end), err
}
