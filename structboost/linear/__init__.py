"""Linear structured predictors: the structured SVM."""
