"""BatchNorm layers with other statistics: those of the batch, of clusters of images, of single images, or averages."""
