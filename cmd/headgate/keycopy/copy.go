package keycopy

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// Config says what to copy.
type Config struct {
	From, To *redis.Client
	// Match is the pattern of SCAN; empty for all keys of the database.
	Match string
	// Replace overwrites keys that the target has; else they are kept.
	Replace bool
	// Refused is called for each key that is not copied and was neither gone nor
	// kept; it may be nil.
	Refused func(key string, why error)
	// Progress is called after each page of keys; it may be nil.
	Progress func(Totals)
}

// Totals count keys.
type Totals struct {
	Copied int // as they were at the source
	Gone   int // expired or deleted between their listing and their reading
	Kept   int // were at the target already
	// Unsupported and TooLarge cannot be held by the target: their type, or
	// more than Headgate's bounds (engine/packed).
	Unsupported, TooLarge int
	Failed                int // the target answered an error
}

// Refused counts the keys that Config.Refused is called for.
func (t Totals) Refused() int { return t.Unsupported + t.TooLarge + t.Failed }

func (cfg *Config) refuse(key string, why error) {
	if cfg.Refused != nil {
		cfg.Refused(key, why)
	}
}

// Seen returns the number of keys looked at.
func (t Totals) Seen() int {
	return t.Copied + t.Gone + t.Kept + t.Unsupported + t.TooLarge + t.Failed
}

const (
	// page is how many keys are listed, read and written at a time.
	page = 256
	// batch is how many elements, or 16 bytes of strings, are in memory at a time,
	// except for a larger value, which travels alone.
	batch = 16384
	// chunk is how many elements one command writes.
	chunk = 1000
)

// Copy copies the keys that match, in pages. A key that changes meanwhile may be
// copied as it was before or after: stop its writers first, or copy again with
// Replace. A key expires at the same moment at both ends, if their clocks agree,
// however long the copy takes. It ends at the first error of a connection, of the source, or of
// ctx; what was copied until then stays.
func Copy(ctx context.Context, cfg Config) (Totals, error) {
	var t Totals
	var cursor uint64
	for {
		keys, next, err := cfg.From.Scan(ctx, cursor, cfg.Match, page).Result()
		if err != nil {
			return t, fmt.Errorf("list the source's keys: %w", err)
		}
		if err := cfg.copyPage(ctx, keys, &t); err != nil {
			return t, err
		}
		if cfg.Progress != nil {
			cfg.Progress(t)
		}
		if cursor = next; cursor == 0 {
			return t, nil
		}
	}
}

// copyPage copies some keys: it sorts out what cannot be carried, reads the rest
// and writes it.
func (cfg *Config) copyPage(ctx context.Context, keys []string, t *Totals) error {
	items, err := cfg.describe(ctx, keys, t)
	if err != nil {
		return err
	}
	if items, err = cfg.absent(ctx, items, t); err != nil {
		return err
	}
	for len(items) > 0 {
		n, size := 0, int64(0)
		for n < len(items) && (n == 0 || size+items[n].size <= batch) {
			size += items[n].size
			n++
		}
		some, err := cfg.read(ctx, items[:n], t)
		if err != nil {
			return err
		}
		if err := cfg.write(ctx, some, t); err != nil {
			return err
		}
		items = items[n:]
	}
	return nil
}

// absent leaves out what the target has.
func (cfg *Config) absent(ctx context.Context, items []item, t *Totals) ([]item, error) {
	if cfg.Replace || len(items) == 0 {
		return items, nil
	}
	there := make([]*redis.IntCmd, len(items))
	_, err := cfg.To.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range items {
			there[i] = p.Exists(ctx, items[i].key)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("ask the target which keys it has: %w", err)
	}
	left := items[:0]
	for i, it := range items {
		if there[i].Val() > 0 {
			t.Kept++
			continue
		}
		left = append(left, it)
	}
	return left, nil
}

// write writes the items. A key that expired on the way is gone after its
// transaction.
func (cfg *Config) write(ctx context.Context, items []item, t *Totals) error {
	results := make([][]*redis.Cmd, len(items))
	_, err := cfg.To.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range items {
			it := &items[i]
			// Replies in a transaction are QUEUED, whatever the command.
			do := func(args ...any) { results[i] = append(results[i], p.Do(ctx, args...)) }
			do("MULTI")
			do("DEL", it.key)
			it.kind.write(it, do)
			if it.ends > 0 {
				do("PEXPIREAT", it.key, it.ends)
			}
			do("EXEC")
		}
		return nil
	})
	var answer redis.Error
	if err != nil && !errors.As(err, &answer) {
		return fmt.Errorf("write to the target: %w", err)
	}
	for i := range items {
		switch err := firstError(results[i]); {
		case err == nil:
			t.Copied++
		default:
			t.Failed++
			cfg.refuse(items[i].key, err)
		}
	}
	return nil
}

// firstError returns the error of a transaction, which is that of a refused
// command or of a command that failed within EXEC.
func firstError(cmds []*redis.Cmd) error {
	for _, c := range cmds {
		if err := c.Err(); err != nil {
			return err
		}
	}
	if len(cmds) == 0 {
		return nil
	}
	if replies, ok := cmds[len(cmds)-1].Val().([]any); ok {
		for _, r := range replies {
			if err, ok := r.(error); ok {
				return err
			}
		}
	}
	return nil
}
