// Package llm limits the tokens of language models.
package llm

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/redis/go-redis/v9"
)

// Call is a call of a model, and the most that it can take.
type Call struct {
	Key, Model              string
	PromptTokens, MaxTokens int
}

// Chunk is a piece of an answer.
type Chunk struct {
	Text   string
	Tokens int // taken by the call up to here, with those of the prompt
}

// LimitedError means that a call wants more tokens than are left.
type LimitedError struct {
	Limit string
	Retry time.Duration // below 0: no wait helps
}

func (e *LimitedError) Error() string {
	return fmt.Sprintf("over %s, retry after %v", e.Limit, e.Retry)
}

// Stream passes an answer on while it comes. At its end, or after an error, it charges the
// tokens that the call has taken.
func Stream(ctx context.Context, rdb redis.UniversalClient, c Call, answer iter.Seq2[Chunk, error], send func(text string) error) (err error) {
	// With an ID, go-redis can repeat the command, and it still reserves only once.
	r, err := rdb.Do(ctx, "RL.RESERVE", "llm", "key", c.Key, "model", c.Model,
		"tokens", c.PromptTokens+c.MaxTokens, "ID", rand.Text()).Slice()
	if err != nil {
		return err
	}
	if r[0] != int64(1) {
		name, _ := r[6].(string)
		return &LimitedError{name, time.Duration(r[3].(int64)) * time.Millisecond}
	}
	took := 0
	if hold, ok := r[8].(string); ok { // no hold if the policy answered without a leader
		defer func() { err = errors.Join(err, settle(rdb, hold, took)) }()
	}
	for chunk, err := range answer {
		if err != nil {
			return err
		}
		took = chunk.Tokens
		if err := send(chunk.Text); err != nil {
			return err
		}
	}
	return nil
}

// settle settles the tokens that a call took. It repeats the command until it gets an
// answer: only the first settlement charges. The caller's context may have ended, so settle
// has its own.
func settle(rdb redis.UniversalClient, hold string, tokens int) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for {
		err := rdb.Do(ctx, "RL.COMMIT", hold, "tokens", tokens).Err()
		if err == nil || redis.HasErrorPrefix(err, "NOHOLD") || ctx.Err() != nil {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
}
