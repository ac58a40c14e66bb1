package ring

// Parts of the layout, for rings that tests make by hand.
const (
	HeadSize   = headSize
	RegionSize = regionSize
	Magic      = magic
)
