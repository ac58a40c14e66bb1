package ring

// settle is nothing where stores become visible in the order they are made.
const settle = 0
