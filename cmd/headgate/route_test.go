package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const routesOfTest = `
policies:
  login: {limits: {ip: {by: ip, rate: 5/m}}}
  api: {limits: {user: {by: user, rate: 100/m}, day: {by: key, rate: 5/d}}}
routes:
  edge:
    else: deny
    attributes: {user: {header: X-User}}
    match:
      POST api.example.com/v1/login: {policy: login, cost: 2}
      /v1/{kind}/{item}: {policy: api, attributes: {kind: {path: kind}, key: {query: key}, tier: free}}
      /healthz: allow
`

// routeRun runs `headgate route test` with some arguments.
func routeRun(args ...string) (string, error) {
	var out, errs bytes.Buffer
	err := run(context.Background(), append([]string{"route", "test"}, args...), &out, &errs)
	return out.String(), err
}

func TestRouteTestCommand(t *testing.T) {
	policyFiles(t, routesOfTest, "routes: {a: {else: allow}, b: {else: deny}}", "policies: {}")
	out, err := routeRun("GET https://API.example.com/v1/users/%37?x=y", "-H", "x-user: eve", "--ip", "203.0.113.9", "--file", "a.yaml")
	require.NoError(t, err)
	require.Equal(t, `routes  routes/edge
route   /v1/{kind}/{item}
policy  api
key     absent             query key
kind    users              path kind
tier    free               constant
user    eve                header X-User
method  GET                the request
host    api.example.com    the request
path    /v1/users/7        the request, in one spelling
route   /v1/{kind}/{item}  the route
ip      203.0.113.9        the client's address
`, out)
	out, err = routeRun("GET https://x/healthz", "--file", "a.yaml")
	require.NoError(t, err)
	require.Equal(t, "routes  routes/edge\nroute   /healthz\nanswer  allow\n", out)
	out, err = routeRun("GET http://x", "--file", "a.yaml")
	require.NoError(t, err)
	require.Equal(t, "routes  routes/edge\nroute   none, so else\nanswer  deny\n", out)
	out, err = routeRun("GET http://x?a", "--file", "b.yaml", "--routes", "a")
	require.NoError(t, err)
	require.Contains(t, out, "allow")

	var answer, warned strings.Builder
	require.NoError(t, run(context.Background(), []string{"route", "test", "get http://x/healthz", "--file", "a.yaml"}, &answer, &warned))
	require.Equal(t, "warning: methods are case-sensitive, as in HTTP: get is not GET\n", warned.String())

	for want, args := range map[string][]string{
		"there are several sets of routes: choose one with --routes: routes/a, routes/b": {"GET http://x/", "--file", "b.yaml"},
		"b.yaml: there is no routes/c": {"GET http://x/", "--file", "b.yaml", "--routes", "c"},
		"there are no routes":          {"GET http://x/", "--file", "c.yaml"},
		"want a method and a URL":      {"http://x/", "--file", "a.yaml"},
		"is not a header field":        {"GET http://x/", "--file", "a.yaml", "-H", "eve"},
		`--ip "x" is not an address`:   {"GET http://x/", "--file", "a.yaml", "--ip", "x"},
		"X-User is given twice":        {"GET http://x/v1/a/b", "--file", "a.yaml", "-H", "X-User: a", "-H", "X-User: b"},
		"its route depends on":         {"GET http://x/v1/a%2fb", "--file", "a.yaml"},
	} {
		_, err := routeRun(args...)
		require.ErrorContains(t, err, want)
	}
}

// A server's routes, and what it would answer.
func TestRouteTestCommandOfAServer(t *testing.T) {
	t.Parallel()
	p := start(t)
	loaded := p.call(t, "RL.POLICY", "LOAD", routesOfTest)
	require.Empty(t, loaded.Error())
	url := "redis://" + p.redis
	for range 2 { // nothing is counted
		out, err := routeRun("POST https://api.example.com/v1/login", "--ip", "203.0.113.9", "--url", url)
		require.NoError(t, err)
		require.Regexp(t, `policy +login\n(.*\n)+cost +2\nverdict +allowed +ok, limit ip: 3 of 5 left\n$`, out)
	}
	out, err := routeRun("POST https://api.example.com/v1/login", "--url", url)
	require.NoError(t, err)
	require.Contains(t, out, "no limit of the policy applied")
	out, err = routeRun("GET https://x/healthz", "--url", url)
	require.NoError(t, err)
	require.Contains(t, out, "answer  allow")
	loaded = p.call(t, "RL.POLICY", "SET", "login", "{require: user, limits: {ip: {by: ip, rate: 5/m}}}")
	require.Empty(t, loaded.Error())
	out, err = routeRun("POST https://api.example.com/v1/login", "--url", url)
	require.ErrorContains(t, err, "user")
	require.Contains(t, out, "policy  login", "the route is shown also if the policy does not decide")
	_, err = routeRun("GET https://x/", "--url", url, "--routes", "none")
	require.ErrorContains(t, err, "there is no routes/none")
	_, err = routeRun("GET https://x/", "--url", "redis://127.0.0.1:1")
	require.Error(t, err)
	_, err = routeRun("GET https://x/", "--url", "127.0.0.1:7379")
	require.EqualError(t, err, `--url "127.0.0.1:7379": want redis://[user:password@]host:port, or rediss:// for TLS`)
}

// Routes by addresses that the server could not know are refused before it starts.
func TestRoutesWithoutTrustedProxies(t *testing.T) {
	policyFiles(t, routesOfTest)
	var out, errs bytes.Buffer
	err := run(context.Background(), []string{"check-config", "--policies=a.yaml", "--trusted-proxies="}, &out, &errs)
	require.ErrorContains(t, err, "set trusted-proxies to the gateway's address")
	require.NoError(t, run(context.Background(), []string{"check-config", "--policies=a.yaml"}, &out, &errs))
	stdout, _, err := policyRun("check a.yaml")
	require.NoError(t, err)
	require.Contains(t, stdout, "2 policies with 3 limits and 1 set of routes")
}
