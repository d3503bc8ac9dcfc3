package wal

import (
	"errors"

	"github.com/hashicorp/raft"
)

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

// Entries calls fn with the entries in a log's directory, in the order in which they were
// written. That includes entries which were deleted later. An entry's data is valid until
// fn returns. An incomplete last write is left out. Nobody may write to the log meanwhile;
// Entries changes nothing. After an error of fn it ends with that error.
func Entries(dir string, fn func(*raft.Log) error) error {
	numbers, err := list(dir)
	if err != nil {
		return err
	}
	for _, n := range numbers {
		if err := entries(fileName(dir, n), n, fn); err != nil {
			return err
		}
	}
	return nil
}

// entries is Entries for one segment.
func entries(path string, number uint64, fn func(*raft.Log) error) (err error) {
	s, unfinished, err := openSegment(path, number)
	switch {
	case unfinished:
		return nil
	case err != nil:
		return err
	}
	defer func() { err = errors.Join(err, s.file.Close()) }()
	var refused error
	_, err = s.scan(func(f frame, payload []byte, _ int64) error {
		if f.kind != kindEntries {
			return nil
		}
		for index := f.a; len(payload) > 0; index++ {
			n := entrySize(payload)
			var l raft.Log
			readEntry(payload[:n], &l)
			l.Index = index
			if refused = fn(&l); refused != nil {
				return refused
			}
			payload = payload[n:]
		}
		return nil
	})
	if refused != nil {
		return refused
	}
	return err
}
