package grammar

import (
	"bytes"
	"encoding/json"
	"maps"

	"github.com/headgate-io/headgate/policy"
)

// schema is a node of a JSON Schema.
type schema map[string]any

func refTo(name string) schema { return schema{"$ref": "#/$defs/" + name} }

func listOf(s schema) schema { return schema{"type": "array", "items": s, "minItems": 1} }

func oneOrMore(s schema) schema { return anyOf(s, listOf(s)) }

func anyOf(s ...schema) schema { return schema{"anyOf": s} }

func mapOf(s schema) schema { return schema{"type": "object", "additionalProperties": s} }

func wordsOf(words ...string) schema { return schema{"enum": words} }

// wholeSchema accepts numbers with _ between digits, which are texts in YAML.
func wholeSchema(least int) schema {
	return schema{"type": []string{"integer", "string"}, "minimum": least, "pattern": "^[0-9][0-9_]*$"}
}

var (
	textSchema     = schema{"type": []string{"string", "number", "boolean"}}
	nameSchema     = schema{"type": "string", "pattern": "^[a-z][a-z0-9_]{0,31}$"}
	listNameSchema = schema{"type": "string", "pattern": "^[a-z][a-z0-9_-]{0,31}$"}
	listSchema     = schema{"type": "array", "items": textSchema, "maxItems": MaxListed}
	durationSchema = schema{"type": "string", "pattern": `^(\d+(ns|us|µs|ms|s|m|h|d|w))+$`}
	rateSchema     = schema{"type": "string", "pattern": `^(unlimited|blocked|[0-9_]+/(second|minute|hour|day|week|month|quarter|year|((\d*(ns|us|µs|ms|s|m|h|d|w))(\d+(ns|us|µs|ms|s|m|h|d|w))*))( burst [0-9_]+)?)$`}
	slotsSchema    = anyOf(wholeSchema(1), wordsOf(policy.Rate{Kind: policy.Unlimited}.String(), policy.Rate{Kind: policy.Blocked}.String()))
	zoneSchema     = schema{"type": "string", "pattern": "^[A-Z][A-Za-z0-9/_+-]*$"}
	costSchema     = anyOf(wholeSchema(1), nameSchema)

	alternatives = schema{"type": "string", "pattern": `^[a-z][a-z0-9_]{0,31}(\|[a-z][a-z0-9_]{0,31})*$`}
	bySchema     = anyOf(alternatives, mapOf(refTo("prefix")), schema{"type": "array", "minItems": 1, "maxItems": policy.MaxBy, "items": anyOf(alternatives, mapOf(refTo("prefix")))})

	attributeSchema = refTo("attribute")
	tiersSchema     = schema{
		"type": "object", "required": []string{"attribute", policy.DefaultTier},
		"properties":           schema{"attribute": nameSchema},
		"additionalProperties": refTo("numbers"),
	}
)

// objectOf returns the schema of a mapping from its table.
func objectOf[T any](entries []entry[T], required ...string) schema {
	properties := schema{}
	for i := range entries {
		if e := &entries[i]; e.later == "" {
			p := maps.Clone(e.schema)
			if _, ref := p["$ref"]; !ref {
				p["description"] = e.about
			}
			properties[e.key] = p
		}
	}
	s := schema{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

// Schema returns the JSON Schema of a file, for editors. The parser may refuse a file that
// the schema accepts, because a schema cannot express everything.
func Schema() []byte {
	limit := objectOf(limitEntries)
	limit["oneOf"] = []schema{{"required": []string{"rate"}}, {"required": []string{"tiers"}}, {"required": []string{"concurrent"}}}
	policy := objectOf(policyEntries)
	policy["oneOf"] = []schema{{"required": []string{"limits"}}, {"required": []string{"descriptors"}}}
	file := objectOf(fileEntries)
	file["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	file["title"] = "Headgate policies"
	file["$defs"] = schema{
		"policy":     policy,
		"hold":       objectOf(holdEntries),
		"limit":      limit,
		"override":   objectOf(overrideEntries, "when", "limits"),
		"numbers":    anyOf(rateSchema, wholeSchema(1), objectOf(numbersEntries)),
		"attribute":  objectOf(attributeEntries),
		"calendar":   objectOf(calendarEntries, "zone"),
		"prefix":     objectOf(prefixEntries),
		"penalty":    objectOf(penaltyEntries, "after", "block"),
		"descriptor": objectOf(descriptorEntries, "key"),
		"rate_limit": objectOf(rateLimitEntries),
		"replaced":   objectOf(replacedEntries, "name"),
		"routes":     objectOf(routesEntries, "else"),
		"route":      anyOf(textSchema, objectOf(targetEntries, "policy")),
		"source":     anyOf(textSchema, objectOf(sourceEntries)),
		"values":     anyOf(textSchema, listOf(textSchema), objectOf(listEntries, "list")),
		"condition": schema{
			"type": "object", "minProperties": 1,
			"additionalProperties": anyOf(textSchema, listOf(textSchema), objectOf(clauseEntries)),
		},
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(file); err != nil {
		panic(err) // of maps, texts and numbers
	}
	return b.Bytes()
}
