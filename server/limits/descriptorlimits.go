package limits

import (
	"errors"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/server/command"
)

var errNoDescriptors = errors.New("the policy has limits: RL.CHECK asks it")

func (x *descriptorMemory) decideLimits(call *command.Call, p *policy.Policy, o engine.CheckOptions) error {
	return badCall{errNoDescriptors}
}

func (x *descriptorMemory) limitKeys(p *policy.Policy, now int64) [][]byte { return nil }
