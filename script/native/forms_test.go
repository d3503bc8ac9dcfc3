package native_test

import (
	"flag"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/script/lua"
	"github.com/headgate-io/headgate/script/native"
)

var allForms = flag.Bool("forms", false, "compare every form with redis-server, not some")

// formSubjects are the scripts that have forms: own has what the parameters of
// their texts become.
var formSubjects = map[string]subject{
	"INCR and EXPIRE at the first":  {own: "9001 2 9002 1 9008 2", args: func(g *gen) []string { return []string{g.within(1, 3), g.within(0, 5)} }},
	"INCR and PEXPIRE at the first": {own: "9001 2 9002 1 9008 700", args: func(g *gen) []string { return []string{milliseconds(g), g.within(0, 5)} }},
}

// What a form does is what redis-server and the interpreter do: some forms here,
// and all with -forms.
func TestForms(t *testing.T) {
	servers := newOracle(t)
	for library, texts := range native.FormTexts() {
		s, ok := formSubjects[library]
		require.True(t, ok, library)
		s.name, s.keys = library, 1
		spelling := strings.NewReplacer(strings.Fields(s.own)...)
		t.Run(library, func(t *testing.T) {
			slices.Sort(texts)
			every := 1 + len(texts)/10
			if *allForms {
				every = 1
			}
			for i := 0; i < len(texts); i += every {
				text := spelling.Replace(texts[i])
				require.NotNil(t, native.Find("", lua.Fingerprint{}, text), text)
				servers.compare(t, &s, text, 60, uint64(i))
				require.False(t, t.Failed(), text)
			}
		})
	}
}
