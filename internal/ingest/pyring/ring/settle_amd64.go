package ring

// settle is zero if stores become visible in the order they are made.
const settle = 0
