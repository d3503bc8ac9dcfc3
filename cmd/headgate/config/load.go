package config

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/pflag"

	"github.com/headgate-io/headgate/policy"
)

const envPrefix = "HEADGATE_"

// seeHelp is the end of the error for an unknown name that resembles no parameter.
const seeHelp = "; headgate serve --help-all lists the parameters"

// Loaded is a configuration and where each of its values comes from.
type Loaded struct {
	Config
	// Sources says where the value of a parameter comes from, by the parameter's name:
	// "flag --x", "environment HEADGATE_X" or "file:line". Defaults are not in it.
	Sources map[string]string
}

// Load makes the configuration from parsed flags (see [AddFlags]) and from the environment,
// in the form of os.Environ. The error has one line for each invalid value, with the name
// of the parameter and where it was set.
func Load(flags *pflag.FlagSet, environ []string) (Loaded, error) {
	l := Loaded{Config: defaults(), Sources: map[string]string{}}
	env, errs := readEnv(environ)

	name, _ := flags.GetString(fileFlag)
	if v, ok := env[fileEnv]; ok && !flags.Changed(fileFlag) {
		name = v
	}
	if name != "" {
		data, err := os.ReadFile(name)
		if err != nil {
			return l, fmt.Errorf("read configuration: %w", err)
		}
		errs = append(errs, l.setFile(name, data)...)
	}
	for i := range Params {
		p := &Params[i]
		if v, ok := env[p.Env()]; ok {
			errs = append(errs, l.set(p, v, "environment "+p.Env()))
		}
		if f := flags.Lookup(p.Name); f != nil && f.Changed {
			errs = append(errs, l.set(p, f.Value.String(), "flag --"+p.Name))
		}
	}
	// After invalid values, reports of conflicts would only confuse.
	if err := errors.Join(errs...); err != nil {
		return l, err
	}
	err := l.conflicts()
	l.findSecret()
	return l, errors.Join(err, l.unguarded())
}

// set sets p to a value. source says where the value comes from.
func (l *Loaded) set(p *Param, value, source string) error {
	v := p.Value(&l.Config)
	switch err := v.Set(value); {
	case err != nil && p.Secret:
		return fmt.Errorf("%s: %s: bad value: want %s", source, p.Name, v.Allowed())
	case err != nil:
		return fmt.Errorf("%s: %s: bad value %q: want %s", source, p.Name, value, v.Allowed())
	}
	l.Sources[p.Name] = source
	return nil
}

// serviceLink matches the variables that Kubernetes and Docker set in every container if a
// service is called headgate or headgate-something. They are not meant as settings.
var serviceLink = regexp.MustCompile(`^HEADGATE(_\w+)?_(SERVICE_(HOST|PORT(_\w+)?)|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)

// readEnv returns the variables in environ that set parameters, by name.
func readEnv(environ []string) (map[string]string, []error) {
	// Remove the prefix, because with it all names would resemble each other.
	variables := []string{strings.TrimPrefix(fileEnv, envPrefix)}
	known := map[string]bool{fileEnv: true}
	for i := range Params {
		known[Params[i].Env()] = true
		variables = append(variables, strings.TrimPrefix(Params[i].Env(), envPrefix))
	}
	env := map[string]string{}
	var errs []error
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		switch {
		case !strings.HasPrefix(name, envPrefix):
		case known[name]:
			env[name] = value
		case serviceLink.MatchString(name), strings.HasSuffix(name, "_PORT") && strings.Contains(value, "://"):
		default:
			near := policy.Nearest(strings.TrimPrefix(name, envPrefix), variables)
			near = strings.Replace(near, `"`, `"`+envPrefix, 1)
			errs = append(errs, fmt.Errorf("environment %s: unknown variable%s", name, cmp.Or(near, seeHelp)))
		}
	}
	return env, errs
}
