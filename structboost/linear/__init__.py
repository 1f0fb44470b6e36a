"""Linear structured predictors, such as the structured SVM."""
