package config

import (
	"fmt"
	"slices"

	"github.com/spf13/pflag"
)

// The flag of the configuration file. It is not a parameter, because the file cannot name
// itself.
const (
	fileFlag = "config"
	fileEnv  = envPrefix + "CONFIG"
)

// flag keeps the text of one parameter until Load applies it, after the other sources. An
// invalid value is reported when the command line is parsed.
type flag struct {
	param *Param
	text  string
}

func (f *flag) Set(s string) error {
	var scratch Config
	v := f.param.Value(&scratch)
	if v.Set(s) != nil {
		return fmt.Errorf("want %s", v.Allowed())
	}
	f.text = s
	return nil
}

func (f *flag) String() string { return f.text }
func (f *flag) Type() string   { return f.param.Value(new(Config)).Type() }

// AddFlags adds --config and a flag for each parameter to fs. A yes/no parameter needs no
// value: --no-fsync means --no-fsync=yes.
func AddFlags(fs *pflag.FlagSet) {
	fs.String(fileFlag, "", "YAML `path` with parameters by these names (environment "+fileEnv+")")
	for i := range Params {
		p := &Params[i]
		f := fs.VarPF(&flag{param: p, text: p.Default}, p.Name, "", p.Doc)
		if p.isSwitch() {
			f.NoOptDefVal = "yes"
		}
	}
}

// isSwitch reports whether the parameter's value is yes or no.
func (p *Param) isSwitch() bool {
	_, ok := p.Value(new(Config)).(yesNo)
	return ok
}

// JoinSwitches returns args in which each yes/no flag and its value are joined: --no-fsync
// no becomes --no-fsync=no. The flag package reads the value only in that form.
func JoinSwitches(args []string) []string {
	var joined []string
	for i := 0; i < len(args); i++ {
		arg := args[i]
		isSwitch := func(p Param) bool { return arg == "--"+p.Name && p.isSwitch() }
		if i+1 < len(args) && slices.ContainsFunc(Params, isSwitch) && (yesNo{new(bool)}).Set(args[i+1]) == nil {
			i++
			arg += "=" + args[i]
		}
		joined = append(joined, arg)
	}
	return joined
}

// first lists the parameters that matter to a new user, in the order of the help text.
var first = []string{"listen", "http-listen", "requirepass", "maxmemory", "policies", "data-dir"}

// FirstUsage returns the help text of --config and of the parameters that matter first.
func FirstUsage(fs *pflag.FlagSet, width int) string {
	shown := pflag.NewFlagSet("", pflag.ContinueOnError)
	shown.SortFlags = false
	for _, name := range append([]string{fileFlag}, first...) {
		shown.AddFlag(fs.Lookup(name))
	}
	return "The parameters that matter first:\n" + shown.FlagUsagesWrapped(width)
}

// Usage returns the help text of all parameters, by section.
func Usage(fs *pflag.FlagSet, width int) string {
	var out string
	section := pflag.NewFlagSet("", pflag.ContinueOnError)
	section.SortFlags = false
	print := func(title string) {
		if section.HasFlags() {
			out += title + ":\n" + section.FlagUsagesWrapped(width) + "\n"
		}
		section = pflag.NewFlagSet("", pflag.ContinueOnError)
		section.SortFlags = false
	}
	section.AddFlag(fs.Lookup(fileFlag))
	title := "Configuration"
	for i := range Params {
		if p := &Params[i]; p.Section != title {
			print(title)
			title = p.Section
		}
		section.AddFlag(fs.Lookup(Params[i].Name))
	}
	print(title)
	return out
}
