package goodput

// categories are those of one process: the fixed ones, and those of its own spans
// in the order in which they came.
type categories struct {
	table []Category // by what
	names map[string]what
}

func newCategories() categories {
	c := categories{names: make(map[string]what)}
	for k := range kindCount {
		c.table = append(c.table, fixed[k])
	}
	return c
}

// custom gives the category of a span that is not a standard one. From some number
// on they share one.
func (c *categories) custom(name string) what {
	if w, ok := c.names[name]; ok {
		return w
	}
	category := customPrefix + Category(name)
	if len(c.names) >= maxCustom {
		if w, ok := c.names[""]; ok {
			return w
		}
		name, category = "", customRest
	}
	w := what(len(c.table))
	c.table = append(c.table, category)
	c.names[name] = w
	return w
}
