package template

import (
	"slices"
	"strings"
	"text/template/parse"
)

// checker finds errors that do not depend on a message.
type checker struct {
	t      *Template
	events []string // nil: any
	depth  int
}

// list checks nodes; root reports whether the dot is the message.
func (c *checker) list(l *parse.ListNode, root bool) error {
	if l == nil {
		return nil
	}
	for _, n := range l.Nodes {
		if err := c.node(n, root); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) node(n parse.Node, root bool) error {
	if c.depth++; c.depth > templateDepthMax {
		return c.t.errorf(n, "nested more than %d deep", templateDepthMax)
	}
	defer func() { c.depth-- }()
	switch n := n.(type) {
	case *parse.ActionNode:
		return c.pipe(n.Pipe, root)
	case *parse.IfNode:
		return c.branch(&n.BranchNode, root, root)
	case *parse.WithNode:
		return c.branch(&n.BranchNode, root, false)
	case *parse.RangeNode:
		return c.branch(&n.BranchNode, root, false)
	case *parse.TemplateNode:
		return c.t.errorf(n, "%v", errNoTemplates)
	}
	return nil
}

// branch checks both branches of an if, range or with; inside reports whether the dot is still the
// message in the first one.
func (c *checker) branch(b *parse.BranchNode, root, inside bool) error {
	if err := c.pipe(b.Pipe, root); err != nil {
		return err
	}
	if err := c.list(b.List, inside); err != nil {
		return err
	}
	return c.list(b.ElseList, root)
}

func (c *checker) pipe(p *parse.PipeNode, root bool) error {
	if c.depth++; c.depth > templateDepthMax {
		return c.t.errorf(p, "nested more than %d deep", templateDepthMax)
	}
	defer func() { c.depth-- }()
	for i, cmd := range p.Cmds {
		if err := c.command(cmd, root, i > 0); err != nil {
			return err
		}
	}
	return nil
}

// command checks a function's name and number of arguments; piped reports that a pipe adds one.
func (c *checker) command(cmd *parse.CommandNode, root, piped bool) error {
	given := len(cmd.Args) - 1
	if piped {
		given++
	}
	name, call := cmd.Args[0].(*parse.IdentifierNode)
	if !call {
		if given > 0 {
			return c.t.errorf(cmd.Args[0], "%s is not a function and takes no arguments", quoted(cmd.Args[0].String()))
		}
	} else if err := c.call(name, given); err != nil {
		return err
	}
	for _, arg := range cmd.Args[min(1, len(cmd.Args)):] {
		if err := c.operand(arg, root); err != nil {
			return err
		}
	}
	if !call {
		return c.operand(cmd.Args[0], root)
	}
	return c.constants(name.Ident, cmd.Args[1:], given)
}

func (c *checker) call(name *parse.IdentifierNode, given int) error {
	f, ok := functions[name.Ident]
	switch {
	case !ok:
		return c.t.errorf(name, "unknown function %s; functions: %s", quoted(name.Ident), strings.Join(functionNames, ", "))
	case given < f.least || f.most >= 0 && given > f.most:
		return c.t.errorf(name, "%s: %d arguments, want %s", name.Ident, given, f.usage)
	}
	return nil
}

// constants checks constant arguments; given is the number of arguments, including one from a pipe.
func (c *checker) constants(name string, args []parse.Node, given int) error {
	switch {
	case name == "date" && given == 3:
		if zone, ok := args[1].(*parse.StringNode); ok {
			if _, err := Zone(zone.Text); err != nil {
				return c.t.errorf(zone, "date: zone: %v", err)
			}
		}
	case name == "index" && len(args) >= 2:
		if event, ok := args[1].(*parse.StringNode); ok && isWitness(args[0]) {
			return c.event(event, event.Text)
		}
	}
	return nil
}

// isWitness reports whether a node is certainly the list of events.
func isWitness(n parse.Node) bool {
	switch n := n.(type) {
	case *parse.FieldNode:
		return len(n.Ident) == 1 && n.Ident[0] == fieldWitness
	case *parse.VariableNode:
		return len(n.Ident) == 2 && n.Ident[0] == "$" && n.Ident[1] == fieldWitness
	}
	return false
}

func (c *checker) operand(n parse.Node, root bool) error {
	switch n := n.(type) {
	case *parse.FieldNode:
		if root {
			return c.path(n, n.Ident)
		}
	case *parse.VariableNode:
		if n.Ident[0] == "$" {
			return c.path(n, n.Ident[1:])
		}
	case *parse.ChainNode:
		return c.operand(n.Node, root)
	case *parse.PipeNode:
		if len(n.Decl) > 0 {
			return c.t.errorf(n, "a variable cannot be set in parentheses")
		}
		return c.pipe(n, root)
	case *parse.IdentifierNode:
		return c.call(n, 0)
	case *parse.NilNode:
		return c.t.errorf(n, "nil is not available")
	case *parse.NumberNode:
		if !n.IsInt && !n.IsFloat || strings.HasPrefix(n.Text, "'") {
			return c.t.errorf(n, "want an integer or a decimal number")
		}
	}
	return nil
}

// path checks the fields of the message; those in an event's data are unknown.
func (c *checker) path(n parse.Node, names []string) error {
	if len(names) == 0 {
		return nil
	}
	if !slices.Contains(messageFields, names[0]) {
		return c.t.errorf(n, "unknown field .%s; fields: .%s", names[0], strings.Join(messageFields, ", ."))
	}
	if len(names) == 1 {
		return nil
	}
	if names[0] != fieldWitness {
		return c.t.errorf(n, ".%s has no fields", names[0])
	}
	if err := c.event(n, names[1]); err != nil {
		return err
	}
	if len(names) > 2 && !slices.Contains(eventFields, names[2]) {
		return c.t.errorf(n, "unknown event field .%s; fields: .%s", names[2], strings.Join(eventFields, ", ."))
	}
	if len(names) > 3 && names[2] != fieldData {
		return c.t.errorf(n, "event field .%s has no fields", names[2])
	}
	return nil
}

func (c *checker) event(n parse.Node, name string) error {
	if c.events == nil || slices.Contains(c.events, name) {
		return nil
	}
	return c.t.errorf(n, "event %s is not in the trigger's expression; events: %s", quoted(name), strings.Join(c.events, ", "))
}
