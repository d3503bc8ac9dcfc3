package clients_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/examples/holds/go/billing"
	"github.com/headgate-io/headgate/examples/holds/go/connect"
	"github.com/headgate-io/headgate/examples/holds/go/exports"
	"github.com/headgate-io/headgate/examples/holds/go/llm"
	"github.com/headgate-io/headgate/examples/holds/go/login"
	"github.com/headgate-io/headgate/internal/hgtest"
	"github.com/headgate-io/headgate/internal/subprocess"
)

// TestRecipes runs the recipes of docs/howto on three nodes. First the process that
// runs it is killed in the middle, then the leader.
func TestRecipes(t *testing.T) {
	c, err := hgtest.StartCluster()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Stop()) })
	rdb := connect.To(c.Addrs()...)
	defer rdb.Close()
	r := recipes{c, rdb}

	r.load(t, "ttl: 5m", "ttl: 2s", "ttl: 30s", "ttl: 2s", "ttl: 1m", "ttl: 2s")
	t.Run("client killed", func(t *testing.T) {
		t.Run("llm", func(t *testing.T) { t.Parallel(); r.llmClientKilled(t) })
		t.Run("login", func(t *testing.T) { t.Parallel(); r.loginClientKilled(t) })
		t.Run("billing", func(t *testing.T) { t.Parallel(); r.billingClientKilled(t) })
		t.Run("exports", func(t *testing.T) { t.Parallel(); r.exportsClientKilled(t) })
	})
	r.load(t)
	t.Run("refused", func(t *testing.T) {
		t.Run("llm", func(t *testing.T) { t.Parallel(); r.llmRefused(t) })
		t.Run("login", func(t *testing.T) { t.Parallel(); r.loginRefused(t) })
		t.Run("billing", func(t *testing.T) { t.Parallel(); r.billingRefused(t) })
		t.Run("exports", func(t *testing.T) { t.Parallel(); r.exportsRefused(t) })
	})
	t.Run("leader killed", r.leaderKilled)
}

// recipes are a cluster that has their policies, and a client of it.
type recipes struct {
	c   *hgtest.Cluster
	rdb redis.UniversalClient
}

// load loads the policies, with some words replaced: each of these must be there.
func (r recipes) load(t *testing.T, replace ...string) {
	files := ""
	for _, name := range []string{"llm", "login", "billing", "exports"} {
		text, err := os.ReadFile("../../../examples/holds/" + name + ".yaml")
		require.NoError(t, err)
		_, policy, ok := strings.Cut(string(text), "policies:\n")
		require.True(t, ok)
		files += policy
	}
	for i := 0; i < len(replace); i += 2 {
		require.Equal(t, 1, strings.Count(files, replace[i]), replace[i])
	}
	files = "policies:\n" + strings.NewReplacer(replace...).Replace(files)
	require.NoError(t, r.rdb.Do(t.Context(), "RL.POLICY", "LOAD", files).Err())
}

// left is what is left of a limit.
func (r recipes) left(t require.TestingT, limit string, check ...any) int64 {
	reply, err := r.rdb.Do(context.Background(), append([]any{"RL.CHECK"}, append(check, "COST", 0)...)...).Slice()
	require.NoError(t, err)
	for _, l := range reply[11].([]any) {
		if l := l.([]any); l[0] == limit {
			return l[3].(int64)
		}
	}
	require.Fail(t, "the limit does not apply", "%v", reply)
	return 0
}

// ends waits until a hold has ended by itself.
func (r recipes) ends(t *testing.T, hold string) {
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		x, err := r.rdb.Do(context.Background(), "RL.EXPLAIN", "HOLD", hold).Slice()
		require.NoError(t, err)
		require.Equal(t, []any{"state", "expired"}, x[4:6])
	}, timeout, 50*time.Millisecond)
}

// recipeEnv names the recipe that this process is to run, and its nodes, in place of tests.
const recipeEnv = "HGTEST_RECIPE"

// child starts a process that runs a recipe for somebody, and returns what it says, line by line, and how to kill it.
func (r recipes) child(t *testing.T, recipe, who string) (say *bufio.Scanner, kill func()) {
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := subprocess.Command(exe)
	cmd.Env = append(os.Environ(), recipeEnv+"="+strings.Join(append([]string{recipe, who}, r.c.Addrs()...), " "))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	p, err := subprocess.Start(cmd)
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Kill() })
	return bufio.NewScanner(out), func() { _ = p.Kill() } // an error is that it was killed
}

// runRecipe is the child: it says what it holds, or what it is about to charge, and
// never comes to an end.
func runRecipe(words []string) {
	ctx, who, rdb := context.Background(), words[1], connect.To(words[2:]...)
	rdb.AddHook(holdHook{})
	stop := func() { select {} }
	switch words[0] {
	case "llm":
		fmt.Println(llm.Stream(ctx, rdb, largeCall(who), chunks(1, stop), ignore))
	case "login":
		_, err := login.Attempt(ctx, rdb, who, "198.51.100.7", func(context.Context) (bool, error) { stop(); return true, nil })
		fmt.Println(err)
	case "exports":
		fmt.Println(exports.Run(ctx, rdb, who, who+"-job", 2*time.Second, func(context.Context) error { fmt.Println("runs"); stop(); return nil }))
	case "billing":
		for i := range 10_000 {
			order := fmt.Sprintf("%s-%d", who, i)
			fmt.Println(order)
			if _, err := billing.Charge(ctx, rdb, who, order, 3); err != nil {
				fmt.Println(err)
			}
		}
	}
}

// holdHook says what is held.
type holdHook struct{ redis.Hook }

func (holdHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (holdHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (holdHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if reply, ok := cmd.(*redis.Cmd); ok && err == nil && cmd.Name() == "rl.reserve" {
			r, _ := reply.Slice()
			fmt.Println(r[8])
		}
		return err
	}
}

// largeCall reserves 15,000 tokens.
func largeCall(key string) llm.Call {
	return llm.Call{Key: key, Model: "large-2", PromptTokens: 5_000, MaxTokens: 10_000}
}

// chunks is an answer that takes 6000 tokens and then n times 1000. after is called
// behind the first of these.
func chunks(n int, after func()) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		for i := range n + 1 {
			if !yield(llm.Chunk{Text: "word ", Tokens: 6_000 + i*1_000}, nil) {
				return
			}
			if i == 1 {
				after()
			}
		}
	}
}

func ignore(string) error { return nil }

// A process dies in the middle of an answer: what it held is given back.
func (r recipes) llmClientKilled(t *testing.T) {
	key := newKey()
	left := func(limit string) int64 { return r.left(t, limit, "llm", "key", key, "model", "large-2", "tokens", 0) }
	say, kill := r.child(t, "llm", key)
	require.True(t, say.Scan())
	hold := say.Text()
	require.Less(t, left("large"), int64(20_000), "15,000 of 30,000 are held, and 500 a second come back")
	kill()
	begin := time.Now()
	r.ends(t, hold)
	require.EqualValues(t, 30_000, left("large"))
	require.EqualValues(t, 90_000, left("tokens"))
	require.Less(t, time.Since(begin), 15*time.Second, "or time gave them back")
}

// A process dies while it verifies a password: that is no success.
func (r recipes) loginClientKilled(t *testing.T) {
	user := newKey()
	say, kill := r.child(t, "login", user)
	require.True(t, say.Scan())
	kill()
	r.ends(t, say.Text())
	require.EqualValues(t, 4, r.left(t, "user", "login", "user", user, "ip", "198.51.100.7"))
}

// A process dies while it charges orders: who takes them over charges none twice.
func (r recipes) billingClientKilled(t *testing.T) {
	account := newKey()
	say, kill := r.child(t, "billing", account)
	var orders []string
	for say.Scan() {
		if orders = append(orders, say.Text()); len(orders) == 25 {
			kill()
		}
	}
	require.GreaterOrEqual(t, len(orders), 25)
	for _, order := range orders {
		ok, err := billing.Charge(t.Context(), r.rdb, account, order, 3)
		require.NoError(t, err)
		require.True(t, ok)
	}
	require.EqualValues(t, 10_000-3*len(orders), r.left(t, "account", "billing", "account", account))
}

// A process dies in the middle of an export: its slot ends, and who runs the job again is
// not charged again.
func (r recipes) exportsClientKilled(t *testing.T) {
	tenant := newKey()
	left := func(limit string) int64 { return r.left(t, limit, "exports", "tenant", tenant) }
	say, kill := r.child(t, "exports", tenant)
	require.True(t, say.Scan())
	require.Equal(t, "runs", say.Text())
	for begin := time.Now(); time.Since(begin) < 3*time.Second; time.Sleep(50 * time.Millisecond) {
		require.EqualValues(t, 1, left("running"), "it is renewed")
	}
	kill()
	require.Eventually(t, func() bool { return left("running") == 2 }, timeout, 50*time.Millisecond)
	require.EqualValues(t, 19, left("day"))
	require.NoError(t, exports.Run(t.Context(), r.rdb, tenant, tenant+"-job", 2*time.Second, func(context.Context) error {
		require.EqualValues(t, 1, left("running"))
		return nil
	}))
	require.EqualValues(t, 2, left("running"))
	require.EqualValues(t, 19, left("day"))
}

func (r recipes) llmRefused(t *testing.T) {
	call, begin := largeCall(newKey()), time.Now()
	require.NoError(t, llm.Stream(t.Context(), r.rdb, call, chunks(9, func() {}), ignore))
	require.NoError(t, llm.Stream(t.Context(), r.rdb, call, chunks(9, func() {}), ignore))
	left := r.left(t, "tokens", "llm", "key", call.Key, "model", "small-1", "tokens", 0)
	require.LessOrEqual(t, left, 60_001+int64(time.Since(begin).Seconds()*1_500), "all models of a key share its tokens")
	var limited *llm.LimitedError
	require.ErrorAs(t, llm.Stream(t.Context(), r.rdb, call, chunks(9, func() {}), ignore), &limited)
	require.Equal(t, "large", limited.Limit)
	require.Positive(t, limited.Retry)
	call.MaxTokens = 11_000
	require.ErrorAs(t, llm.Stream(t.Context(), r.rdb, call, chunks(9, func() {}), ignore), &limited)
	require.Negative(t, limited.Retry, "more than half of the limit")

	// A reader who goes away in the middle is charged what there was until then.
	call = largeCall(newKey())
	gone := fmt.Errorf("gone")
	require.ErrorIs(t, llm.Stream(t.Context(), r.rdb, call, chunks(9, func() {}), func(string) error { return gone }), gone)
	require.InDelta(t, 24_500, r.left(t, "large", "llm", "key", call.Key, "model", call.Model, "tokens", 0), 500)
	// The others are of a budget of their own.
	call.Model, call.MaxTokens = "small-1", 40_000
	require.NoError(t, llm.Stream(t.Context(), r.rdb, call, chunks(0, func() {}), ignore))
}

func (r recipes) loginRefused(t *testing.T) {
	user := newKey()
	attempt := func(right bool) (bool, error) {
		return login.Attempt(t.Context(), r.rdb, user, "198.51.100.8", func(context.Context) (bool, error) { return right, nil })
	}
	for range 8 {
		ok, err := attempt(true)
		require.NoError(t, err)
		require.True(t, ok)
	}
	for range 5 {
		ok, err := attempt(false)
		require.NoError(t, err)
		require.False(t, ok)
	}
	for _, retry := range []time.Duration{15 * time.Minute, 15 * time.Minute, time.Hour, time.Hour} {
		_, err := attempt(true)
		var limited *login.LimitedError
		require.ErrorAs(t, err, &limited)
		require.InDelta(t, retry, limited.Retry, float64(time.Minute))
	}
	require.NoError(t, r.rdb.Do(t.Context(), "RL.POLICY", "RESET", "login", "user", user).Err())
	ok, err := attempt(true)
	require.NoError(t, err)
	require.True(t, ok)
}

func (r recipes) billingRefused(t *testing.T) {
	account := newKey()
	ok, err := billing.Charge(t.Context(), r.rdb, account, account+"-1", 9_999)
	require.NoError(t, err)
	require.True(t, ok)
	ok, err = billing.Charge(t.Context(), r.rdb, account, account+"-2", 2)
	require.NoError(t, err)
	require.False(t, ok)
	_, err = billing.Charge(t.Context(), r.rdb, account, account+"-1", 1)
	require.ErrorContains(t, err, "IDCONFLICT")
}

func (r recipes) exportsRefused(t *testing.T) {
	tenant := newKey()
	run := func(job string, export func(context.Context) error) error {
		return exports.Run(t.Context(), r.rdb, tenant, job, 400*time.Millisecond, export)
	}
	two := func(ctx context.Context) error {
		return run("2", func(context.Context) error {
			var limited *exports.LimitedError
			require.ErrorAs(t, run("3", nil), &limited)
			require.Equal(t, "running", limited.Limit)
			require.Positive(t, limited.Retry)
			return errors.New("broken")
		})
	}
	require.EqualError(t, run("1", two), "broken")
	require.EqualValues(t, 2, r.left(t, "running", "exports", "tenant", tenant))

	// Who loses the slot is told.
	err := run("4", func(ctx context.Context) error {
		for n := 0; ctx.Err() == nil; n += 2 { // more often, if it is renewed in between
			require.Less(t, n, 100)
			require.NoError(t, r.rdb.Do(t.Context(), "RL.POLICY", "RESET", "exports", "tenant", tenant).Err())
			for job := range 2 {
				require.NoError(t, r.rdb.Do(t.Context(), "RL.CHECK", "exports", "tenant", tenant, "ID", n+job).Err())
			}
			time.Sleep(200 * time.Millisecond)
		}
		return context.Cause(ctx)
	})
	require.ErrorIs(t, err, exports.ErrSlotLost)
}

// The leader dies between hold and settlement, and between charge and answer.
func (r recipes) leaderKilled(t *testing.T) {
	key, account := newKey(), newKey()
	var charged atomic.Int64
	running, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for running.Err() == nil {
			ok, err := billing.Charge(t.Context(), r.rdb, account, fmt.Sprintf("%s-%d", account, charged.Load()), 3)
			if !assert.NoError(t, err) || !assert.True(t, ok) {
				return
			}
			charged.Add(1)
		}
	})
	defer wg.Wait()
	defer stop()
	reach := func(n int64) {
		require.Eventually(t, func() bool { return charged.Load() >= n }, 2*timeout, time.Millisecond)
	}
	begin := time.Now()
	require.NoError(t, exports.Run(t.Context(), r.rdb, key, "job", time.Minute, func(ctx context.Context) error {
		return llm.Stream(ctx, r.rdb, largeCall(key), chunks(3, func() {
			reach(25)
			require.NoError(t, r.rdb.Do(ctx, "WAIT", 1, 5000).Err()) // the holds are on another node
			_, err := r.c.KillLeader()
			require.NoError(t, err)
		}), ignore)
	}))
	back := int64(time.Since(begin).Seconds()*500) + 500
	left := r.left(t, "large", "llm", "key", key, "model", "large-2", "tokens", 0)
	require.GreaterOrEqual(t, left, int64(21_000), "9000 are charged")
	require.LessOrEqual(t, left, 21_000+back)
	require.EqualValues(t, 2, r.left(t, "running", "exports", "tenant", key), "its slot is free")
	require.EqualValues(t, 19, r.left(t, "day", "exports", "tenant", key))
	reach(charged.Load() + 25)
	stop()
	wg.Wait()
	require.EqualValues(t, 10_000-3*charged.Load(), r.left(t, "account", "billing", "account", account), "each once")
}
