package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/server/verdict"
)

// Forwarded is a request of a gateway's client, as the gateway describes it.
type Forwarded struct {
	// IP is the client's address; the zero value if unknown.
	IP           netip.Addr
	Method, Host string
	// Target is the path with the query; "" if unknown.
	Target string
	// Header holds the fields that the gateway passes on or sets.
	Header http.Header
}

// read reads the description of a gateway's client's request. At pathAuthz the gateway
// sends the client's method and host, and the client's path after the policy. At the other
// paths, X-Forwarded-* fields describe the request. If these fields are missing, method and
// host are those of the gateway's own request, and the target is unknown. A field that
// occurs twice is an error, because one of the two may come from the client.
func (f *Forwarded) read(r *http.Request, gate, below string) error {
	*f = Forwarded{Method: r.Method, Host: r.Host, Header: r.Header}
	if gate == pathAuthz {
		if f.Target = "/" + below; r.URL.RawQuery != "" {
			f.Target += "?" + r.URL.RawQuery
		}
		return nil
	}
	var err error
	for _, x := range [...]struct {
		name string
		to   *string
	}{{"X-Forwarded-Method", &f.Method}, {"X-Forwarded-Host", &f.Host}, {"X-Forwarded-Uri", &f.Target}} {
		if err == nil {
			err = one(f.Header, x.name, x.to)
		}
	}
	return err
}

// one reads a header field into *to, if it is set. It returns an error if the field occurs
// twice.
func one(h http.Header, name string, to *string) error {
	switch values := h[name]; {
	case len(values) > 1:
		return fmt.Errorf("%s is given twice: the gateway must replace its client's header, not add one", name)
	case len(values) == 1:
		*to = values[0]
	}
	return nil
}

// set adds an attribute to a call, unless it is empty.
func set(c *verdict.Call, name, value string) {
	if value != "" {
		c.Attributes = append(c.Attributes, verdict.Attribute{Name: name, Value: value[:min(len(value), policy.MaxValue)]})
	}
}

// describe adds the attributes of the client's request to a call: ip, method, host and
// path, as the gateway spells them. It leaves out unknown attributes.
func (f *Forwarded) describe(c *verdict.Call) {
	if f.IP.IsValid() {
		set(c, "ip", f.IP.String())
	}
	set(c, "method", f.Method)
	set(c, "host", f.Host)
	path, _, _ := strings.Cut(f.Target, "?")
	set(c, "path", path)
}

// errNoTarget is the error for a request whose path is unknown. Routes need the path.
var errNoTarget = errors.New("X-Forwarded-Uri is missing: routes need the path")

// Route finds the route of the request. If the route asks a policy, Route fills in c. c
// must be empty, but may have memory for attributes.
func (f *Forwarded) Route(routes *policy.Routes, c *verdict.Call, found *policy.Found) error {
	if f.Target == "" {
		return errNoTarget
	}
	if err := routes.Find(f.Method, f.Host, f.Target, found); err != nil {
		return err
	}
	r := found.Route
	c.Policy, c.Cost, c.HasCost = r.Policy, r.Cost, r.Cost != 0
	if r.Answer != policy.AskPolicy {
		return nil
	}
	for i := range r.Given {
		g := &r.Given[i]
		value, err := f.value(g, found)
		if err != nil {
			return err
		}
		set(c, g.Name, value)
	}
	for _, x := range [...]verdict.Attribute{
		{Name: "method", Value: found.Method}, {Name: "host", Value: found.Host}, {Name: "path", Value: found.Path}, {Name: "route", Value: r.Pattern},
	} {
		if !r.Gives(x.Name) {
			set(c, x.Name, x.Value)
		}
	}
	if f.IP.IsValid() && !r.Gives("ip") {
		set(c, "ip", f.IP.String())
	}
	return nil
}

// value returns the value of an attribute that a route sets, "" if the request has none.
func (f *Forwarded) value(g *policy.Given, found *policy.Found) (value string, err error) {
	switch g.From {
	case policy.Constant:
		return g.Key, nil
	case policy.FromHeader:
		err = one(f.Header, g.Key, &value)
	case policy.FromCookie:
		if c, wrong := (&http.Request{Header: f.Header}).Cookie(g.Key); wrong == nil {
			value = c.Value
		}
	case policy.FromQuery:
		value = parameter(found.Query, g.Key)
	case policy.FromPath:
		value = found.Param(g.Param)
	}
	return value, err
}

// parameter returns the first parameter with a name in a query, "" if there is none.
func parameter(query, name string) string {
	for pair := range strings.SplitSeq(query, "&") {
		key, value, _ := strings.Cut(pair, "=")
		if key, err := url.QueryUnescape(key); err != nil || key != name {
			continue
		}
		if value, err := url.QueryUnescape(value); err == nil {
			return value
		}
	}
	return ""
}
