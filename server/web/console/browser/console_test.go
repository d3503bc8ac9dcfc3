package browser

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/hgtest"
)

// pages are the fragments of the pages.
var pages = []string{"#now", "#explain", "#policies", "#playground", "#cluster"}

// A node without traffic first shows the playground, and one with traffic what goes on.
func TestFirstPage(t *testing.T) {
	t.Parallel()
	s := start(t)
	b := open(t, s.HTTP, "", desk)
	b.ready("playground")
	for _, p := range pages {
		b.visit(p)
	}
	b.visit("#now")
	b.shows("main", "No key to show yet")
	b.visit("#policies")
	b.shows("main", "There is no policy yet")
	b.visit("#cluster")
	b.shows("main", "This node runs alone")

	c := client(t, s.Addr)
	for range 3 {
		do(t, c, "RL.LIMIT", "user:1", 1, "1h")
	}
	b = open(t, s.HTTP, "", desk)
	b.ready("now")
	require.Equal(t, "#now", eval[string](b, "location.hash"))
	b.shows(".callers", "user:1")
}

// Each page answers the question that it is for, while the node has traffic.
func TestPagesUnderLoad(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := client(t, s.Addr)
	prepare(t, c)
	load(t, c)

	// Who is denied most, and why?
	b := open(t, s.HTTP, "#now", desk)
	b.ready("now")
	b.until(`document.querySelectorAll(".callers tbody tr").length === 10`)
	b.shows(".callers tbody tr", "user=buyer-0")
	b.shows(".callers tbody tr", "none of 20 left")
	b.until(`document.querySelectorAll(".events li").length > 5`)
	b.until(`document.querySelectorAll(".tile path.line").length >= 6`)
	require.Regexp(t, `^Live`, b.text("#fresh"))

	// When may it call again? The link leads to the answer, which counts down.
	b.do(chromedp.Click(`.callers tbody a[href*="buyer-0"]`))
	b.ready("explain")
	b.shows(".answer", "It may call")
	require.Equal(t, "@shop/checkout:user;user=buyer-0", b.text(".key"))
	was := b.text(".answer")
	b.until("document.querySelector('.answer').innerText !== " + quoted(was))
	b.until(`document.querySelector(".state .water")`)

	// What changed in a policy, and by whom?
	b.visit("#policies?name=shop%2Fcheckout")
	b.shows(".diff", "10/m")
	b.shows(".diff", "20/m")
	b.shows("main", "default at 127.0.0.1")
	b.shows("main", "user=buyer-7")
	b.visit("#policies?name=api")
	b.do(chromedp.SendKeys("#findover", "partner-3"))
	b.until(`document.querySelectorAll("tbody tr th .name").length && [...document.querySelectorAll("th .name")].filter(e => e.innerText.startsWith("key=")).length === 1`)
	b.visit("#policies")
	b.shows("main", "shop/checkout")

	// A caller of a policy, with its attributes.
	b.visit("#explain?policy=export")
	b.do(chromedp.SetValue(".pair .n", "tenant"), chromedp.SetValue(".pair .v", "store-1"), chromedp.Click(".askpolicy button"))
	b.shows(".result", "running")
	require.NotContains(t, eval[string](b, "location.href"), "store-1")

	b.mu.Lock()
	streams := len(b.stream)
	b.mu.Unlock()
	require.Zero(t, streams, "only Now reads events")
}

// What a newcomer asks about a caller has an answer also if the text is only part of a key,
// and if the block of a caller lasts longer than its counter.
func TestNewcomersQuestions(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := client(t, s.Addr)
	do(t, c, "RL.POLICY", "SET", "login", "{require: [ip, user], limits: {address: {by: ip, rate: 2/s, algorithm: fixed, penalty: {after: 1, block: 10m}}, account: {by: user, rate: 5/m}}}")
	do(t, c, "RL.POLICY", "SET", "login", "{require: [ip, user], limits: {address: {by: ip, rate: 1/s, algorithm: fixed, penalty: {after: 1, block: 10m}}, account: {by: user, rate: 5/m}}}")
	for range 3 {
		do(t, c, "RL.CHECK", "login", "ip", "203.0.113.66", "user", "eve")
	}
	b := open(t, s.HTTP, "#now", desk)
	b.expect("404 (Not Found)", "400 (Bad Request)")
	b.ready("now")
	b.shows(".callers tbody tr", "blocked for")
	b.visit("#explain?key=nobody")
	b.shows(".result", "no such key")
	b.shows(".result", "A policy and a caller")
	b.visit("#explain?key=203.0.113.66")
	b.do(chromedp.Click(".result a"))
	b.shows(".answer", "Blocked. It may call again in 9 min")
	b.shows(".result", "1 per second")
	b.until(`document.querySelector(".answer") && !document.querySelector(".result").innerText.includes("Memory")`)
	require.Contains(t, b.text(".answer"), "Blocked. It may call again in 9 min", "the counter has expired")
	require.Contains(t, b.text(".after"), "after repeated denials")

	b.visit("#explain")
	b.do(chromedp.Click("#mode-policy"))
	b.until("document.querySelector('#policy option[value=login]')")
	b.do(chromedp.Focus("#policy"), chromedp.KeyEvent("login"))
	b.until(`[...document.querySelectorAll(".pair .n")].map(e => e.value).join() === "ip,user"`)
	b.do(chromedp.SendKeys(".pair .v", "203.0.113.66"), chromedp.KeyEvent(kb.Enter))
	b.shows(".result", "requires attribute 'user'")
	b.do(chromedp.SendKeys(".pair + .pair .v", "eve"), chromedp.KeyEvent(kb.Enter))
	b.shows(".answer", "Denied by the limit address. It may call again in 9 min")

	b.visit("#policies?name=login")
	b.shows("main", "It was created today")
	b.shows("main", "1 change by")
	b.shows(".diff", "(counters stay)")
	b.shows("main", "RL.OVERRIDE SET login LIMIT address RATE 100/m ip 203.0.113.9")
}

// Which algorithm lets a burst through? The answer is the server's own.
func TestPlayground(t *testing.T) {
	t.Parallel()
	s := start(t)
	b := open(t, s.HTTP, "#playground", desk)
	b.ready("playground")
	b.shows(".verdict", "the fixed window with 20 units, 2 times the limit")
	b.shows(".verdict", "Least: the leaky bucket")
	for _, pattern := range []string{"steady", "burst", "ramp", "storm", "day", "edge"} {
		turn := eval[string](b, `document.getElementById("main").dataset.turns`)
		b.do(chromedp.Click("#pattern-" + pattern))
		b.until(`document.getElementById("main").dataset.turns !== ` + quoted(turn))
		require.Equal(t, 5, eval[int](b, `document.querySelectorAll(".lane .yes, .lane .no").length && document.querySelectorAll(".lane").length`), pattern)
	}
	set := func(id, value string) {
		eval[bool](b, fmt.Sprintf(`(e => { e.value = %q; e.dispatchEvent(new Event("input")); e.dispatchEvent(new Event("change")); return true })(document.getElementById(%q))`, value, id))
	}
	set("limit", "7")
	set("burst", "12")
	set("cost", "2")
	set("period", "1h")
	b.shows("main", "RL.LIMIT user:42 7 1h BURST 12 COST 2")
	b.shows("main", "CL.THROTTLE user:42 11 7 3600 2")
	b.shows("main", "rate: 7/h burst 12")
	b.do(chromedp.Click("#use-sliding"))
	b.shows("main", "RL.LIMIT user:42 7 1h ALGORITHM sliding COST 2")
	b.shows("main", "algorithm: sliding")

	// The commands are right ones.
	c := client(t, s.Addr)
	commands := eval[[]string](b, `[...document.querySelectorAll(".command")].filter(e => !e.hidden).map(e => e.querySelector("code").textContent)`)
	require.Len(t, commands, 3)
	for _, line := range commands {
		line = strings.TrimPrefix(line, "redis-cli -p 7379 ")
		var args []any
		for i, part := range strings.Split(line, "'") {
			if i%2 == 1 {
				args = append(args, part)
				continue
			}
			for _, word := range strings.Fields(part) {
				args = append(args, word)
			}
		}
		do(t, c, args...)
	}
}

// Names that others choose are text on each page, and neither break out nor hide anything.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := client(t, s.Addr)
	hostile := []string{
		`<img src=x onerror="document.title='owned'">`, `"><script>document.title='owned'</script>`, `'; alert(1); '`, "`rm -rf /`$(reboot)",
		"\u202egnp.exe", "שלום עולם", "a\u0000b\nc\td", strings.Repeat("long", 1024), strings.Repeat("日本", 60), `\u003cb\u003e`, "{{constructor}}",
	}
	do(t, c, "RL.POLICY", "SET", "wild", "# <img src=x onerror=alert(1)> \u202e\n{limits: {user: {by: user, rate: 1/h}}, deny: [{user: '<b>nobody</b>'}]}")
	do(t, c, "RL.POLICY", "SET", "wild", "{limits: {user: {by: user, rate: 2/h}}, deny: [{user: '<img src=x>'}]}")
	for _, name := range hostile {
		for range 4 {
			do(t, c, "RL.LIMIT", name, 1, "1h")
			do(t, c, "RL.CHECK", "wild", "user", name)
		}
		do(t, c, "RL.OVERRIDE", "SET", "wild", "LIMIT", "user", "RATE", "5/h", "user", name)
	}
	for _, l := range []look{desk, phone} {
		b := open(t, s.HTTP, "#now", l)
		b.expect("404 (Not Found)") // keys that are cut have no state of their own
		check := func(page string) {
			t.Helper()
			require.Zero(t, eval[int](b, `document.querySelectorAll("main img, main script, main iframe, main b .name b, main [onerror], main [style]").length`), page)
			require.NotEqual(t, "owned", eval[string](b, "document.title"))
			require.NotContains(t, b.text("body"), "\u202e", page)
			wide := eval[[]int](b, "[document.documentElement.scrollWidth, innerWidth]")
			require.LessOrEqual(t, wide[0], wide[1], "%s is wider than the screen: %v", page, eval[[]string](b, `[...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > innerWidth && !e.closest(".scroll *, pre *")).map(e => e.tagName + "." + e.className)`))
		}
		b.ready("now")
		b.shows(".callers", "<img")
		if l == desk {
			b.shows(".callers", `\u202e`)
		}
		for _, name := range hostile[:3] {
			for range 6 {
				do(t, c, "RL.CHECK", "wild", "user", name)
			}
		}
		b.until(`document.querySelectorAll(".events li").length > 1`)
		check("now")
		for _, name := range append(hostile, "@wild:user;user="+hostile[0]) {
			b.visit("#explain?key=" + url.QueryEscape(name))
			b.until(`document.querySelector(".answer, .result h2")`)
			check("explain " + name)
			if l == desk && !strings.Contains(name, "long") && !strings.HasPrefix(name, "@") {
				b.until(`document.querySelector(".answer")`)
				require.Contains(t, b.text(".answer"), "It may call again", name)
			}
		}
		b.visit("#policies")
		b.shows(".detail", "<img src=x>")
		check("policies")
		b.visit("#policies?name=wild")
		b.shows(".detail", "<img src=x>")
		b.shows(".detail", `\u202e`)
		check("policy")
		b.visit("#policies?name=" + url.QueryEscape(`<img src=x onerror=alert(1)>`))
		b.shows(".detail", "no such policy")
		check("no policy")
		b.visit("#explain?policy=wild")
		b.do(chromedp.SetValue(".pair .v", hostile[0]), chromedp.Click(".askpolicy button"))
		b.until(`document.querySelector(".answer")`)
		check("explain a policy")
		for _, p := range []string{"#playground", "#cluster"} {
			b.visit(p)
			check(p)
		}
	}
}

// The pages work without a mouse, and the focus can be seen.
func TestKeyboardAlone(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := client(t, s.Addr)
	for range 3 {
		do(t, c, "RL.LIMIT", "user:1", 1, "1h")
	}
	b := open(t, s.HTTP, "#now", desk)
	b.ready("now")
	focused := func() string {
		return eval[string](b, `(e => e.id || e.innerText || e.tagName)(document.activeElement)`)
	}
	// tab goes on until something has the focus.
	tab := func(to string) {
		t.Helper()
		for range 60 {
			b.do(chromedp.KeyEvent(kb.Tab))
			seen := eval[bool](b, `(e => [e, e.nextElementSibling].some(x => x && getComputedStyle(x).outlineStyle !== "none"))(document.activeElement)`)
			require.True(t, seen, "the focus on %q is not seen", focused())
			if focused() == to {
				return
			}
		}
		t.Fatalf("the focus does not come to %q", to)
	}
	b.do(chromedp.KeyEvent(kb.Tab))
	require.Equal(t, "Skip to the content", focused())
	b.do(chromedp.KeyEvent(kb.Enter))
	require.Equal(t, "main", focused())
	tab("by-denied")
	b.do(chromedp.KeyEvent(kb.ArrowRight))
	require.Equal(t, "by-allowed", focused())
	b.shows(".callers", "user:1")
	b.do(chromedp.KeyEvent(kb.ArrowLeft))
	tab("user:1")
	b.do(chromedp.KeyEvent(kb.Enter))
	b.ready("explain")
	b.shows(".answer", "It may call again")

	eval[bool](b, `(document.querySelector(".brand").focus(), true)`)
	tab("Playground")
	b.do(chromedp.KeyEvent(kb.Enter))
	b.ready("playground")
	require.Equal(t, "main", focused())
	tab("pattern-edge")
	turn := eval[string](b, `document.getElementById("main").dataset.turns`)
	b.do(chromedp.KeyEvent(kb.ArrowRight))
	require.Equal(t, "pattern-steady", focused())
	b.until(`document.getElementById("main").dataset.turns !== ` + quoted(turn))
	tab("limit")
	b.do(chromedp.KeyEvent(kb.ArrowRight))
	b.shows("main", "RL.LIMIT user:42 11 1m")

	eval[bool](b, `(document.querySelector(".brand").focus(), true)`)
	tab("Policies")
	b.do(chromedp.KeyEvent(kb.Enter))
	b.ready("policies")
	tab("find")
}

// A request can be tried on routes, by keyboard alone. It counts nothing, and its texts
// stay text.
func TestTryRequest(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := client(t, s.Addr)
	for _, p := range []struct{ name, text string }{
		{"login", "{require: user, limits: {user: {by: user, rate: 2/h}}}"},
		{"api", "{limits: {user: {by: user, rate: 100/h}}}"},
		{"routes/edge", "{else: deny, attributes: {user: {header: X-User}}, match: {POST api.example.com/v1/login: {policy: login, cost: 2}, /v1/*: api, /healthz: allow}}"},
	} {
		do(t, c, "RL.POLICY", "SET", p.name, p.text)
	}
	b := open(t, s.HTTP, "#policies?name=routes%2Fedge", desk)
	b.ready("policies")
	b.until(`document.querySelector(".try")`)
	set := func(id, value string) {
		t.Helper()
		eval[bool](b, "(document.getElementById("+quoted(id)+").select(), true)")
		b.do(chromedp.KeyEvent(kb.Backspace), chromedp.KeyEvent(value))
	}
	press := func() { b.do(chromedp.Focus(".try button"), chromedp.KeyEvent(kb.Enter)) }

	set("path", "/v1/things")
	b.do(chromedp.KeyEvent(kb.Enter))
	b.shows(".tried .answer", "It would pass now")
	b.shows(".tried", "No limit of the policy applies")
	b.shows(".tried table", "absent")
	b.shows(".tried table", "header X-User")
	require.Equal(t, "/v1/*", b.text(".tried dd .name"))

	b.do(chromedp.Focus("#method"), chromedp.KeyEvent("POST"))
	set("path", "/v1/login?a=b")
	press()
	b.shows(".tried .answer", "The policy would not decide")
	b.shows(".tried .after", "user")
	set("headers", "X-User: eve")
	for range 2 { // nothing is counted
		set("ip", "203.0.113.9")
		press()
		b.shows(".tried .after", "Limit user: 0 of 2 would be left")
		require.Equal(t, "It would pass now", b.text(".tried .answer"))
		eval[bool](b, `(document.querySelector(".tried").replaceChildren(), true)`)
	}
	b.shows(".command", `headgate route test 'POST http://api.example.com/v1/login?a=b' -H 'X-User: eve' --ip 203.0.113.9 --routes edge --url redis://127.0.0.1:7379`)
	do(t, c, "RL.CHECK", "login", "user", "eve")
	press()
	b.shows(".tried .answer", "It would be denied now. It may pass in")
	set("path", "/healthz")
	press()
	b.shows(".tried .answer", "It passes without a policy")
	set("path", "/other")
	press()
	b.shows(".tried .answer", "It is denied without a policy")
	b.shows(".tried", "none matches, so else answers")

	set("headers", "eve")
	press()
	b.shows(".tried .answer", "has the form Name: value")
	set("headers", "")
	b.expect("422 (Unprocessable Entity)")
	set("path", "/v1%2Fa")
	press()
	b.shows(".tried", "the gateway would be told to refuse")

	hostile := `<img src=x onerror=alert(1)>`
	eval[bool](b, `(document.getElementById("headers").value = "X-User: " + `+quoted(hostile+"\u202e")+`, true)`)
	set("path", "/v1/"+hostile)
	press()
	b.shows(".tried table", hostile+`\u202e`)
	require.NotContains(t, b.text("main"), "\u202e")
	require.Zero(t, eval[int](b, `document.querySelectorAll("main img, main [onerror]").length`))
	require.NotContains(t, eval[string](b, "location.href"), "img")
}

// A token is asked for, and is nowhere but in the page's memory.
func TestSignIn(t *testing.T) {
	t.Parallel()
	s, err := hgtest.Start(hgtest.Config{Password: hgtest.Password})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Stop()) })
	b := open(t, s.HTTP, "#policies", desk)
	b.expect("401 (Unauthorized)")
	b.ready("login")
	require.Equal(t, "token", eval[string](b, "document.activeElement.id.split('-')[0]"))
	b.do(chromedp.KeyEvent("wrong"), chromedp.KeyEvent(kb.Enter))
	b.shows("main", "refused this token")
	b.do(chromedp.KeyEvent(hgtest.Password), chromedp.KeyEvent(kb.Enter))
	b.ready("policies")
	b.visit("#now")
	b.until(`document.querySelector(".callers")`)
	held := eval[string](b, `JSON.stringify([location.href, {...localStorage}, {...sessionStorage}, document.cookie, history.state, document.documentElement.outerHTML])`)
	require.NotContains(t, held, hgtest.Password)
	require.Empty(t, eval[string](b, "document.cookie"))
	b.mu.Lock()
	for asked := range b.asked {
		if strings.Contains(asked, "horse") {
			t.Errorf("the password is in %s", asked)
		}
	}
	b.mu.Unlock()
	b.do(chromedp.Click("#signout"))
	b.ready("login")
}

// The page says loudly that its data is old.
func TestStale(t *testing.T) {
	t.Parallel()
	s := start(t)
	b := open(t, s.HTTP, "#now", desk)
	b.expect("Failed to load resource", "net::ERR")
	b.ready("now")
	s.Kill()
	b.shows("#alarm", "Old data")
	b.shows("#fresh", "Stale for")
	require.NoError(t, s.Restart())
	b.shows("#fresh", "Live")
	b.until(`document.getElementById("alarm").innerText === ""`)
}

// Without the parameter there is no console.
func TestSwitchedOff(t *testing.T) {
	t.Parallel()
	s := start(t, "--console=no")
	b := open(t, s.HTTP, "", desk)
	b.expect("404 (Not Found)")
	b.shows("body", "404 page not found")
}

// The search of the documents finds a section, and shows the text around the word.
func TestSearchOfTheDocuments(t *testing.T) {
	t.Parallel()
	s := start(t)
	b := open(t, s.HTTP, "docs/commands/holds.html", desk)
	b.do(chromedp.SendKeys("#find", "max-unacked"))
	b.shows("#found", "Configuration")
	b.until(`[...document.querySelectorAll("#found p")].some(p => p.innerText.includes("max-unacked"))`)
	b.do(chromedp.SendKeys("#find", " nosuchword"))
	b.shows("#found", "Nothing has all these words")
	b.do(chromedp.SendKeys("#find", kb.Escape+"RL.RESERVE"))
	b.until(`document.querySelector("#found a")?.href.endsWith("/docs/commands/holds.html#rlreserve")`)
	b.shows("#found p", "Checks a call")
}
