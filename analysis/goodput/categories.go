package goodput

import "slices"

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

// custom returns the category of a span that is not a standard one. From some number
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
	w := c.add(category)
	c.names[name] = w
	return w
}

// startUp returns the category of a part of a start. One of which nothing is known is
// part of what it is in.
func (c *categories) startUp(part string) what {
	category := startUpPrefix + Category(part)
	if !slices.Contains(startUps, category) {
		return whatOther
	}
	if i := slices.Index(c.table, category); i >= 0 {
		return what(i)
	}
	return c.add(category)
}

func (c *categories) add(category Category) what {
	c.table = append(c.table, category)
	return what(len(c.table) - 1)
}
