package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/policy/grammar"
	verdicts "github.com/headgate-io/headgate/server/verdict"
	"github.com/headgate-io/headgate/server/web"
)

// routeTimeout is how long `headgate route` waits for a server.
const routeTimeout = 10 * time.Second

// routeCommand groups the commands about routes.
func routeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "route",
		Short: "Show which policy a gateway's request asks, by the routes",
	}
	cmd.AddCommand(routeTestCommand())
	return cmd
}

func routeTestCommand() *cobra.Command {
	var t routeTest
	cmd := &cobra.Command{
		Use:   "test 'METHOD URL'",
		Short: "Show what a request becomes: its route, policy, attributes and, from a server, its verdict",
		Long: `The routes come from a file or from a server. A server is also asked what it would
answer now, and counts nothing. Header fields are those that the gateway
passes on or sets.`,
		Example: `  headgate route test 'GET https://api.example.com/v1/users/7' -H 'X-User: eve' --file policies.yaml
  headgate route test 'POST https://api.example.com/v1/login' --ip 203.0.113.9 --url redis://127.0.0.1:7379`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), routeTimeout)
			defer cancel()
			return t.run(ctx, cmd, args[0])
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&t.file, "file", "", "`file` of policies with the routes; - is the standard input")
	flags.StringVar(&t.url, "url", "redis://127.0.0.1:7379", "`URL` of the server to ask, unless there is a file: redis://[user:password@]host:port, or rediss:// for TLS")
	flags.StringVar(&t.set, "routes", "", "`name` of the set of routes; not needed if there is one")
	flags.StringVar(&t.ip, "ip", "", "`address` of the client")
	flags.StringArrayVarP(&t.fields, "header", "H", nil, "`field` of the header, 'Name: value'; may be repeated")
	return cmd
}

// routeTest has the flags of `headgate route test`.
type routeTest struct {
	file, url, set, ip string
	fields             []string
}

func (t *routeTest) run(ctx context.Context, cmd *cobra.Command, request string) error {
	f, err := t.request(request)
	if err != nil {
		return err
	}
	var server *redis.Client
	var routes *policy.Routes
	if t.file != "" {
		routes, err = t.ofFile(cmd)
	} else {
		o, wrong := redis.ParseURL(t.url)
		if wrong != nil {
			return fmt.Errorf("--url %q: want redis://[user:password@]host:port, or rediss:// for TLS", t.url)
		}
		o.Protocol, o.MaxRetries = 3, -1
		server = redis.NewClient(o)
		defer server.Close()
		routes, err = t.ofServer(ctx, server)
	}
	if err != nil {
		return err
	}
	if upper := strings.ToUpper(f.Method); upper != f.Method {
		fmt.Fprintf(cmd.ErrOrStderr(), "warning: methods are case-sensitive, as in HTTP: %s is not %s\n", f.Method, upper)
	}
	tried, err := f.Try(routes)
	if err != nil {
		return fmt.Errorf("the gateway would be told to refuse the request: %w", err)
	}
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	printRoute(w, routes, tried)
	if server != nil && tried.Found.Route.Answer == policy.AskPolicy {
		if err := printVerdict(ctx, w, server, &tried.Call); err != nil {
			return errors.Join(w.Flush(), err)
		}
	}
	return w.Flush()
}

var errNoRequest = errors.New("want a method and a URL, such as 'GET https://api.example.com/v1/users/7'")

// request reads the request in the form in which a gateway would report it.
func (t *routeTest) request(s string) (*web.Forwarded, error) {
	method, target, _ := strings.Cut(s, " ")
	_, rest, ok := strings.Cut(target, "://")
	u, err := url.Parse(target)
	if !ok || err != nil || u.Host == "" || method == "" {
		return nil, errNoRequest
	}
	f := &web.Forwarded{Method: method, Host: u.Host, Target: "/", Header: http.Header{}}
	if at := strings.IndexAny(rest, "/?"); at >= 0 { // keep the path as it is written
		f.Target = "/" + strings.TrimPrefix(rest[at:], "/")
	}
	if t.ip != "" {
		if f.IP, err = netip.ParseAddr(t.ip); err != nil {
			return nil, fmt.Errorf("--ip %q is not an address such as 203.0.113.9", t.ip)
		}
	}
	for _, field := range t.fields {
		name, value, ok := strings.Cut(field, ":")
		if !ok {
			return nil, fmt.Errorf("%q is not a header field such as 'X-User: eve'", field)
		}
		f.Header.Add(name, strings.TrimSpace(value))
	}
	return f, nil
}

// choose returns the name of the routes to use.
func (t *routeTest) choose(names []string) (string, error) {
	if t.set != "" {
		return "routes/" + strings.TrimPrefix(t.set, "routes/"), nil
	}
	switch len(names) {
	case 0:
		return "", errors.New("there are no routes")
	case 1:
		return names[0], nil
	}
	return "", fmt.Errorf("there are several sets of routes: choose one with --routes: %s", strings.Join(names, ", "))
}

func (t *routeTest) ofFile(cmd *cobra.Command) (*policy.Routes, error) {
	f, err := readPolicies(cmd, t.file)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, r := range f.routes() {
		names = append(names, r.Name)
	}
	name, err := t.choose(names)
	if err != nil {
		return nil, err
	}
	if r := f.set.Routes(name); r != nil {
		return r, nil
	}
	return nil, fmt.Errorf("%s: there is no %s", t.file, name)
}

func (t *routeTest) ofServer(ctx context.Context, server *redis.Client) (*policy.Routes, error) {
	list, err := server.Do(ctx, "RL.POLICY", "LIST").Slice()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, x := range list {
		record, _ := x.(map[any]any)
		if name, _ := record["name"].(string); policy.KindOf(name) == policy.RoutesRecord {
			names = append(names, name)
		}
	}
	name, err := t.choose(names)
	if err != nil {
		return nil, err
	}
	reply, err := server.Do(ctx, "RL.POLICY", "GET", name).Result()
	if errors.Is(err, redis.Nil) {
		return nil, fmt.Errorf("there is no %s", name)
	}
	if err != nil {
		return nil, err
	}
	record, _ := reply.(map[any]any)
	text, _ := record["text"].(string)
	rec, err := grammar.ParseRecord(name, name, []byte(text))
	if err != nil {
		return nil, err
	}
	return rec.Routes.Set, nil
}

// printRoute prints the policy and the attributes that the routes choose for a request.
func printRoute(w io.Writer, routes *policy.Routes, tried *web.RouteTrial) {
	r := tried.Found.Route
	pattern := r.Pattern
	if pattern == "" {
		pattern = "none, so else"
	}
	fmt.Fprintf(w, "routes\t%s\nroute\t%s\n", routes.Name, pattern)
	switch r.Answer {
	case policy.AllowAll:
		fmt.Fprintf(w, "answer\tallow\n")
		return
	case policy.DenyAll:
		fmt.Fprintf(w, "answer\tdeny\n")
		return
	}
	fmt.Fprintf(w, "policy\t%s\n", r.Policy)
	for _, a := range tried.Attributes() {
		fmt.Fprintf(w, "%s\t%s\t%s\n", a.Name, cmp.Or(a.Value, "absent"), a.From)
	}
	if tried.Call.HasCost {
		fmt.Fprintf(w, "cost\t%d\n", tried.Call.Cost)
	}
}

// printVerdict asks a server for the verdict and prints it.
func printVerdict(ctx context.Context, w io.Writer, server *redis.Client, call *verdicts.Call) error {
	args := []any{"RL.CHECK", call.Policy}
	for _, a := range call.Attributes {
		args = append(args, a.Name, a.Value)
	}
	if call.HasCost {
		args = append(args, "COST", call.Cost)
	}
	reply, err := server.Do(ctx, append(args, "PEEK")...).Result()
	if err != nil {
		return err
	}
	v, _ := reply.(map[any]any)
	answer := "denied"
	if v["allowed"] == int64(1) {
		answer = "allowed"
	}
	fmt.Fprintf(w, "verdict\t%s\t%v", answer, v["reason"])
	switch {
	case v["reason"] == "none":
		fmt.Fprint(w, ", no limit of the policy applied: are its attributes there?")
	case v["name"] != nil:
		fmt.Fprintf(w, ", limit %v: %v of %v left", v["name"], v["remaining"], v["limit"])
	}
	fmt.Fprintln(w)
	return nil
}
