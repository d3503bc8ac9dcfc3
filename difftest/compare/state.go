package compare

import (
	"fmt"
	"strconv"
)

// state compares everything that the two servers hold.
func (r *run) state() (*Failure, error) {
	defer func() {
		_, _ = r.oracle.do("SELECT", "0") // an error shows in the next sequence
		_, _ = r.subject.do("SELECT", "0")
	}()
	for db := range r.databases {
		if r.databases > 1 {
			if f, _, err := r.ask("SELECT", strconv.Itoa(db)); f != nil || err != nil {
				return f, err
			}
		}
		f, reply, err := r.ask("KEYS", "*")
		if f != nil || err != nil {
			return f, err
		}
		keys, _ := elements(reply)
		for _, key := range keys {
			if f, err := r.stored(text(key)); f != nil || err != nil {
				return f, err
			}
		}
	}
	return nil, nil
}

// stored compares the type, the lifetime and the value of a key.
func (r *run) stored(key string) (*Failure, error) {
	f, reply, err := r.ask("TYPE", key)
	if f != nil || err != nil {
		return f, err
	}
	look := map[string][]string{
		"string": {"GET", key},
		"hash":   {"HGETALL", key},
		"set":    {"SMEMBERS", key},
		"zset":   {"ZRANGE", key, "0", "-1", "WITHSCORES"},
		"list":   {"LRANGE", key, "0", "-1"},
	}[text(reply)]
	if look == nil {
		return nil, fmt.Errorf("the oracle has a key of type %s", reply)
	}
	if f, _, err = r.ask(look...); f != nil || err != nil {
		return f, err
	}
	f, _, err = r.ask("PTTL", key)
	return f, err
}

// ask puts a command to both servers and compares the replies.
func (r *run) ask(args ...string) (*Failure, []byte, error) {
	a, err := r.oracle.do(args...)
	if err != nil {
		return nil, nil, fmt.Errorf("oracle: %w", err)
	}
	b, err := r.subject.do(args...)
	if err == nil && same(args, a, b, r.waited) {
		return nil, a, nil
	}
	f := &Failure{Step: len(r.steps), What: fmt.Sprintf("at the end %q", args), Oracle: show(a), Subject: show(b)}
	if err != nil {
		f.Subject = err.Error()
	}
	return f, nil, nil
}
