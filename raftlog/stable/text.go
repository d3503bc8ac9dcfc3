package stable

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
)

// Text returns the text that s has under key, or "".
func Text(s raft.StableStore, key []byte) (string, error) {
	v, err := s.Get(key)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return "", fmt.Errorf("read %s: %w", key, err)
	}
	return string(v), nil
}

// Number returns the number that s has under key, or 0.
func Number(s raft.StableStore, key []byte) (uint64, error) {
	v, err := s.GetUint64(key)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return 0, fmt.Errorf("read %s: %w", key, err)
	}
	return v, nil
}

// SetText puts value under key.
func SetText(s raft.StableStore, key []byte, value string) error {
	if err := s.Set(key, []byte(value)); err != nil {
		return fmt.Errorf("write %s: %w", key, err)
	}
	return nil
}

// TextOr returns the text stored in s under key. If there is none, it stores value and
// returns it.
func TextOr(s raft.StableStore, key []byte, value string) (string, error) {
	v, err := Text(s, key)
	if err != nil || v != "" {
		return v, err
	}
	return value, SetText(s, key, value)
}
