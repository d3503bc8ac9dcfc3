package clients_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/subprocess"
)

var (
	policyFile   = regexp.MustCompile("(?ms)^```yaml\n(# (?:api|saas|hooks)\\.yaml\n.*?)^```")
	policySource = regexp.MustCompile("(?ms)^```go\n(.*?)^```")
)

// policiesApp calls the functions of the pages, and prints what they return
// as JSON.
const policiesApp = `package main

import (
	"context"
	"encoding/json"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
)

%s

func main() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: os.Args[1], Protocol: 2, MaxRetries: -1})
	var told []any
	tell := func(values ...any) { told = append(told, values) }
	for range 11 {
		ok, retry, err := allowAPI(ctx, rdb, "go", "free", "198.51.100.7", "")
		tell(ok, retry.Seconds(), err == nil)
	}
	ok, retry, err := allowAPI(ctx, rdb, "revoked-go", "revoked", "", "")
	tell(ok, retry.Milliseconds(), err == nil)
	for _, cost := range []int{500, 500, 501} {
		status, err := statusSaaS(ctx, rdb, "go", "eve", "GET", "/v1/items", cost)
		tell(status, err == nil)
	}
	for range 5 {
		send, in, err := sendAt(ctx, rdb, "go.example.com", "go")
		tell(send, in.Seconds(), err == nil)
	}
	if err := json.NewEncoder(os.Stdout).Encode(told); err != nil {
		panic(err)
	}
}
`

// The examples of three pages of docs/howto, with their policies.
func TestPolicies(t *testing.T) {
	var page []byte
	for _, name := range []string{"tiers", "tenants", "webhooks"} {
		text, err := os.ReadFile("../../../docs/howto/" + name + ".md")
		require.NoError(t, err)
		page = append(page, text...)
	}
	rdb := redis.NewClient(&redis.Options{Addr: plain().addr, Protocol: 2})
	defer rdb.Close()
	files := policyFile.FindAllStringSubmatch(string(page), -1)
	require.Len(t, files, 3)
	for _, f := range files {
		require.NoError(t, rdb.Do(t.Context(), "RL.POLICY", "LOAD", f[1]).Err())
	}
	code := ""
	for _, f := range policySource.FindAllStringSubmatch(string(page), -1) {
		code += f[1] + "\n"
	}

	dir := t.TempDir()
	source, overlay, bin := filepath.Join(dir, "main.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "app")
	require.NoError(t, os.WriteFile(source, fmt.Appendf(nil, policiesApp, code), 0o600))
	place, err := filepath.Abs("policies/main.go") // of this module, which has the client library
	require.NoError(t, err)
	j, err := json.Marshal(map[string]map[string]string{"Replace": {place: source}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(overlay, j, 0o600))
	out, err := exec.Command("go", "build", "-overlay", overlay, "-o", bin, "./policies").CombinedOutput()
	require.NoError(t, err, string(out))

	out, err = subprocess.Command(bin, plain().addr).Output()
	require.NoError(t, err, string(out))
	var told [][]any
	require.NoError(t, json.Unmarshal(out, &told), string(out))
	require.Len(t, told, 11+1+3+5)
	for _, call := range told[:10] {
		require.Equal(t, []any{true, 0.0, true}, call)
	}
	require.Equal(t, false, told[10][0])
	require.InDelta(t, 28, told[10][1], 8.1)
	require.Equal(t, []any{false, -1.0, true}, told[11])
	require.Equal(t, []any{200.0, true}, told[12])
	require.Equal(t, []any{429.0, true}, told[13])
	require.Equal(t, []any{403.0, true}, told[14], "above the capacity")
	for i, call := range told[15:19] {
		require.Equal(t, true, call[0])
		require.InDelta(t, 10*i, call[1], 9)
	}
	require.Equal(t, false, told[19][0])
	require.InDelta(t, 6, told[19][1], 4.1)
}
